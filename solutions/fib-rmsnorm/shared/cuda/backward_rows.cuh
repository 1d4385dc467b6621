#pragma once

// Many rows: blocks stay for all rows, read each row once, and keep the sums over their rows in registers. A second
// kernel adds the blocks' sums, always in the same order.

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_ahead.cuh"
#include "backward_math.cuh"
#include "backward_row.cuh"

namespace {

// Adds the sums of a block's rows, one row of threads after the other, to those of its first. `passed` is shared memory
// for the sums of a row.
template <int VECS, int ELEMENTS, int ROW_THREADS, int ROWS>
__device__ void add_rows_of_block(ColumnSums<ELEMENTS> (&sums)[VECS], float4* passed) {
#pragma unroll
  for (int sum = 0; sum < SUMS; ++sum) {
#pragma unroll
    for (int giver = ROWS - 1; giver >= 0; --giver) {
      __syncthreads();
      if (threadIdx.y != giver) continue;
#pragma unroll
      for (int i = 0; i < VECS * ELEMENTS / 4; ++i) {
        float* mine = sums[i / (ELEMENTS / 4)].of(sum) + i % (ELEMENTS / 4) * 4;
        if (giver < ROWS - 1) {
          const float4 theirs = passed[i * ROW_THREADS + threadIdx.x];
          mine[0] += theirs.x, mine[1] += theirs.y, mine[2] += theirs.z, mine[3] += theirs.w;
        }
        if (giver > 0) passed[i * ROW_THREADS + threadIdx.x] = {mine[0], mine[1], mine[2], mine[3]};
      }
    }
  }
}

// Writes the block's sums to its part of `partials`, [SUMS, gridDim.x, hidden].
template <int VECS, int ELEMENTS, int ROW_THREADS, int ROWS>
__device__ void write_partials(ColumnSums<ELEMENTS> (&sums)[VECS], float* partials, int cols, float4* passed) {
  if (ROWS > 1) add_rows_of_block<VECS, ELEMENTS, ROW_THREADS, ROWS>(sums, passed);
  if (threadIdx.y > 0) return;
  const int64_t hidden = static_cast<int64_t>(cols) * ELEMENTS;
#pragma unroll
  for (int sum = 0; sum < SUMS; ++sum) {
    float* mine = partials + (sum * static_cast<int64_t>(gridDim.x) + blockIdx.x) * hidden;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * ROW_THREADS;
      if (col >= cols) continue;
      float4* to = reinterpret_cast<float4*>(mine + col * ELEMENTS);
      const float* from = sums[i].of(sum);
#pragma unroll
      for (int j = 0; j < ELEMENTS / 4; ++j) to[j] = {from[4 * j], from[4 * j + 1], from[4 * j + 2], from[4 * j + 3]};
    }
  }
}

// blockDim = (Rows::THREADS, Rows::AT_ONCE); `partials` is [SUMS, gridDim.x, hidden].
template <class Rows>
__global__ void __launch_bounds__(Rows::THREADS* Rows::AT_ONCE, 1)
    differentiate_rows(Tensors<typename Rows::Element> tensors, float* partials, int batch, int cols,
                       float inverse_hidden, unsigned int none) {
  constexpr int VECS = Rows::VECS, ELEMENTS = Elements<typename Rows::Element>::COUNT;
  constexpr int ROW_THREADS = Rows::THREADS, ROWS = Rows::AT_ONCE;
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");  // they wait for all of this grid, but need not be launched then
#endif
  ColumnSums<ELEMENTS> sums[VECS];
  const int64_t stride = static_cast<int64_t>(ROWS) * gridDim.x;
  int64_t row = blockIdx.x + static_cast<int64_t>(threadIdx.y) * gridDim.x;
  Rows rows;
  rows.start(tensors, row, stride, batch, cols);
#pragma unroll
  for (int i = 0; i < VECS; ++i) sums[i].clear();

  for (int turn = 0; row < batch; turn ^= 1) {
    const Statistics of = rows.advance(tensors, row, stride, batch, cols);
    RowSums products = {0.f, 0.f};
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const Terms<typename Rows::Element> terms = rows.read(i);
      add_products(terms.x, terms.dy, terms.weight, of, products);
      add_terms(terms.x, terms.dy, of, sums[i]);
    }
    const RowSums total = sum_row<ROW_THREADS, ROWS>(products, turn);
    const RowSums means = {total.of_products * inverse_hidden, total.of_scaled * inverse_hidden};
    const unsigned int zero = __float_as_uint(total.of_products) & none;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * ROW_THREADS;
      const Terms<typename Rows::Element> terms = rows.read_again(i, zero);
      if (col < cols)
        tensors.dx[row * cols + col] = differentiate(terms.x, terms.dy, terms.weight, rows.added(i), of, means);
    }
    row += stride;
  }

  __shared__ float4 passed[ROWS > 1 ? VECS * ELEMENTS / 4 * ROW_THREADS : 1];
  write_partials<VECS, ELEMENTS, ROW_THREADS, ROWS>(sums, partials, cols, passed);
}

// A block adds the partial sums of ADD_COLS vectors of four columns; blockIdx.y is the sum.
constexpr int ADD_COLS = 8;
constexpr int ADD_LANES = 64;   // rows of partial sums that a block adds side by side
constexpr int ADD_AT_ONCE = 3;  // that a thread requests before it waits: all of 132 multiprocessors' blocks

__device__ void add(float4& to, float4 value) { to.x += value.x, to.y += value.y, to.z += value.z, to.w += value.w; }

template <typename T>
__global__ void __launch_bounds__(ADD_COLS* ADD_LANES)
    add_partials(const float4* partials, T* dweight, T* dbias, int blocks, int vecs) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // for the sums
#endif
  constexpr int WARPS = ADD_COLS * ADD_LANES / WARP;
  __shared__ float4 warp_sums[WARPS][ADD_COLS];
  const int col = blockIdx.x * ADD_COLS + threadIdx.x, thread = threadIdx.y * ADD_COLS + threadIdx.x;
  float4 sum = {0.f, 0.f, 0.f, 0.f};
  if (col < vecs) {
    const float4* first = partials + static_cast<int64_t>(blockIdx.y) * blocks * vecs + col;
#pragma unroll 1
    for (int block = threadIdx.y; block < blocks; block += ADD_AT_ONCE * ADD_LANES) {
      float4 values[ADD_AT_ONCE];
#pragma unroll
      for (int i = 0; i < ADD_AT_ONCE; ++i) {
        const int there = block + i * ADD_LANES;
        values[i] = there < blocks ? first[static_cast<int64_t>(there) * vecs] : float4{0.f, 0.f, 0.f, 0.f};
      }
#pragma unroll
      for (int i = 0; i < ADD_AT_ONCE; ++i) add(sum, values[i]);
    }
  }
#pragma unroll
  for (int offset = ADD_COLS; offset < WARP; offset *= 2) {
    add(sum, {__shfl_xor_sync(~0u, sum.x, offset), __shfl_xor_sync(~0u, sum.y, offset),
              __shfl_xor_sync(~0u, sum.z, offset), __shfl_xor_sync(~0u, sum.w, offset)});
  }
  if (thread % WARP < ADD_COLS) warp_sums[thread / WARP][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= vecs) return;
  sum = warp_sums[0][threadIdx.x];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) add(sum, warp_sums[warp][threadIdx.x]);
  T* to = (blockIdx.y == 0 ? dweight : dbias) + 4 * col;
  to[0] = static_cast<T>(sum.x), to[1] = static_cast<T>(sum.y);
  to[2] = static_cast<T>(sum.z), to[3] = static_cast<T>(sum.w);
}

}  // namespace
