#pragma once

// What the kernels for few rows and for many share: a row in the registers of its threads, and the sums over it.

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_math.cuh"
#include "row_sum.cuh"

namespace {

template <typename Element>
struct Tensors {
  const Element *dy, *dnew_residual, *x, *weight;
  const float *mean, *rstd;
  Element* dx;
};

// Sums over the ROW_THREADS that share one of the block's rows, for each of them. Rows go their own ways: the barrier
// is theirs alone. `turn` alternates, so that nobody overwrites what others still read.
template <int ROW_THREADS, int ROWS>
__device__ RowSums sum_row(RowSums sums, int turn) {
  constexpr int WARPS = ROW_THREADS / WARP;
  alignas(16) __shared__ float partials[2][SUMS][ROWS][WARPS];
  const float of_products = warp_sum(sums.of_products), of_scaled = IS_CENTERED ? warp_sum(sums.of_scaled) : 0.f;
  if (threadIdx.x % WARP == 0) {
    partials[turn][0][threadIdx.y][threadIdx.x / WARP] = of_products;
    if (IS_CENTERED) partials[turn][SUMS - 1][threadIdx.y][threadIdx.x / WARP] = of_scaled;
  }
  if constexpr (ROWS == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(ROW_THREADS) : "memory");
  }
  RowSums total = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < WARPS; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(&partials[turn][0][threadIdx.y][i]);
    total.of_products += (four.x + four.y) + (four.z + four.w);
    if (IS_CENTERED) {
      const float4 more = *reinterpret_cast<const float4*>(&partials[turn][SUMS - 1][threadIdx.y][i]);
      total.of_scaled += (more.x + more.y) + (more.z + more.w);
    }
  }
  return total;
}

// A row in the registers of its threads.
template <typename Pair, int VECS, int ROW_THREADS>
struct Row {
  Vec<Pair> x[VECS], dy[VECS], added[HAS_RESIDUAL ? VECS : 1];
  Statistics of;

  __device__ void request(const Tensors<Vec<Pair>>& tensors, int64_t row, int cols) {
    const int64_t first = row * cols;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * ROW_THREADS;
      x[i] = {}, dy[i] = {};
      if (col >= cols) continue;
      x[i] = load_now(tensors.x + first + col);
      dy[i] = load_now(tensors.dy + first + col);
    }
    of = load_statistics(tensors.mean, tensors.rstd, row);
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * ROW_THREADS;
      if (HAS_RESIDUAL && col < cols) added[i] = load_now(tensors.dnew_residual + first + col);
    }
  }
};

}  // namespace
