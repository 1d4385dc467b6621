// What a row kernel is given, and the set of kernels that each instruction set provides.
#pragma once

#include <cstdint>

namespace {

// Rows of up to so many columns can be held as float32, beside the weight.
constexpr int64_t MAX_HELD_COLUMNS = 4096;

// What a Form does without is null.
struct RowTask {
  const void* x;
  const void* residual;
  const void* gate;
  const void* weight;
  const void* bias;
  void* out;
  void* new_residual;
  int64_t hidden;
  double eps;
  bool stream;  // write around the caches; needs rows of the outputs that start at 64-byte boundaries
  bool hold;    // hold x and the weight as float32, unless they are
};

// Normalizes the rows [begin, end).
using RowKernel = void (*)(const RowTask& task, int64_t begin, int64_t end);

struct RowKernels {
  RowKernel fp16;
  RowKernel bf16;
  RowKernel fp32;
  RowKernel fp16_weight_fp32;  // and a bias of float32
  RowKernel bf16_weight_fp32;
};

}  // namespace
