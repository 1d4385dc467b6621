// What a row kernel is given, and the set of kernels that each instruction set provides.
#pragma once

#include <cstdint>

namespace {

// Rows of up to so many columns can be held as float32, beside the weight.
constexpr int64_t MAX_HELD_COLUMNS = 4096;

struct RowTask {
  const void* x;
  const void* weight;
  void* out;
  int64_t hidden;
  double eps;
  bool stream;  // write around the caches; needs rows of out that start at 64-byte boundaries
  bool hold;    // hold x and the weight as float32, unless they are
};

// Normalizes the rows [begin, end).
using RowKernel = void (*)(const RowTask& task, int64_t begin, int64_t end);

struct RowKernels {
  RowKernel fp16;
  RowKernel bf16;
  RowKernel fp32;
};

}  // namespace
