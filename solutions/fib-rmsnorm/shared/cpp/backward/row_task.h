// What the kernels of a backward pass are given, and the set of kernels that each instruction set provides.
//
// It stands in the place of the forward pass's row_task.h, as rows.inl beside it does: the simd_*.h serve both.
#pragma once

#include <cstdint>

namespace {

// What a Form does without is null.
struct RowTask {
  const void* dy;
  const void* dnew_residual;
  const void* x;
  const void* weight;
  const float* mean;
  const float* rstd;
  void* dx;
  void* dweight;
  void* dbias;
  int64_t hidden;
  int64_t rows_at_once;
  bool stream;  // write dx around the caches; needs rows of it that start at 64-byte boundaries
};

// Sums over the rows of a block, a number for each column in the order of the columns in a pack.
struct Sums {
  float* dweight;
  float* dbias;
};

// Differentiates the rows [begin, end), and sets the sums over them.
using RowKernel = void (*)(const RowTask& task, int64_t begin, int64_t end, Sums sums);

// Adds the sums of all blocks for the columns [begin, end), and rounds them. Those of a block lie `stride` numbers
// behind those of the block before. `begin` is a multiple of every PACK; the sums of the first block are overwritten.
using SumKernel = void (*)(const RowTask& task, Sums sums, int64_t blocks, int64_t stride, int64_t begin, int64_t end);

struct Kernels {
  RowKernel rows;
  SumKernel sums;
};

struct RowKernels {
  Kernels fp16;
  Kernels bf16;
  Kernels fp32;
  Kernels fp16_weight_fp32;  // and the sums are float32
  Kernels bf16_weight_fp32;
};

}  // namespace
