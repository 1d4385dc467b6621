#pragma once

// Few rows, and rows of any length: one launch without a workspace. Some blocks differentiate a row each, the others
// add all rows of a few columns. They read the same bytes, which the L2 cache has for whoever comes second.

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_row.cuh"

namespace {

constexpr int SPLIT_THREADS = 256;

// Columns that a block adds: 64 bytes of each row at least, for whole sectors of memory.
template <typename Element>
constexpr int SPLIT_COLS = Elements<Element>::COUNT == 1 ? WARP : 4;

template <typename Element, typename T>
__device__ void add_columns(const Tensors<Element>& tensors, T* dweight, T* dbias, int batch, int64_t cols) {
  constexpr int ELEMENTS = Elements<Element>::COUNT, COLS = SPLIT_COLS<Element>, LANES = SPLIT_THREADS / COLS;
  constexpr int WARPS = SPLIT_THREADS / WARP;
  __shared__ float warp_sums[SUMS][WARPS][COLS * ELEMENTS];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * COLS, col = first + threadIdx.x % COLS;
  ColumnSums<ELEMENTS> sums;
  sums.clear();
  if (col < cols) {
#pragma unroll 4
    for (int64_t row = threadIdx.x / COLS; row < batch; row += LANES) {
      const Element x = load(tensors.x + row * cols + col), dy = load(tensors.dy + row * cols + col);
      add_terms(x, dy, load_statistics(tensors.mean, tensors.rstd, row), sums);
    }
  }
#pragma unroll
  for (int sum = 0; sum < SUMS; ++sum) {
#pragma unroll
    for (int i = 0; i < ELEMENTS; ++i) {
      float value = sums.of(sum)[i];
#pragma unroll
      for (int offset = COLS; offset < WARP; offset *= 2) value += __shfl_xor_sync(~0u, value, offset);
      if (threadIdx.x % WARP < COLS) warp_sums[sum][threadIdx.x / WARP][threadIdx.x % WARP * ELEMENTS + i] = value;
    }
  }
  __syncthreads();
  const int64_t element = first * ELEMENTS + threadIdx.x;
  if (threadIdx.x >= COLS * ELEMENTS || element >= cols * ELEMENTS) return;
#pragma unroll
  for (int sum = 0; sum < SUMS; ++sum) {
    float total = 0.f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) total += warp_sums[sum][warp][threadIdx.x];
    (sum == 0 ? dweight : dbias)[element] = static_cast<T>(total);
  }
}

// The first `column_blocks` blocks add columns, because they take longest; the others have a row each, in registers.
template <typename Pair, typename T, int VECS>
__global__ void __launch_bounds__(SPLIT_THREADS, VECS <= 2 ? 5 : 1)
    differentiate_split(Tensors<Vec<Pair>> tensors, T* dweight, T* dbias, int batch, int64_t cols, float inverse_hidden,
                        unsigned int column_blocks, unsigned int none) {
  if (blockIdx.x < column_blocks) return add_columns(tensors, dweight, dbias, batch, cols);
  const int64_t row = blockIdx.x - column_blocks;
  Row<Pair, VECS, SPLIT_THREADS> here;
  Vec<Pair> weight[VECS];
  here.request(tensors, row, cols);
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * SPLIT_THREADS;
    weight[i] = {};
    if (col < cols) weight[i] = load_now(tensors.weight + col);
  }
  RowSums products = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < VECS; ++i) add_products(here.x[i], here.dy[i], weight[i], here.of, products);
  const RowSums total = sum_row<SPLIT_THREADS, 1>(products, 0);
  const RowSums means = {total.of_products * inverse_hidden, total.of_scaled * inverse_hidden};
  const unsigned int zero = __float_as_uint(total.of_products) & none;
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * SPLIT_THREADS;
    keep_packed_until(here.x[i], zero);
    keep_packed_until(here.dy[i], zero);
    keep_packed_until(weight[i], zero);
    if (col < cols)
      tensors.dx[row * cols + col] =
          differentiate(here.x[i], here.dy[i], weight[i], here.added[HAS_RESIDUAL ? i : 0], here.of, means);
  }
}

// The same for rows that are too long for registers, or not made of 16-byte vectors: they are read twice.
template <typename Element, typename T>
__global__ void __launch_bounds__(SPLIT_THREADS)
    differentiate_loop(Tensors<Element> tensors, T* dweight, T* dbias, int batch, int64_t cols, float inverse_hidden,
                       unsigned int column_blocks) {
  if (blockIdx.x < column_blocks) return add_columns(tensors, dweight, dbias, batch, cols);
  const int64_t row = blockIdx.x - column_blocks, first = row * cols;
  const Statistics of = load_statistics(tensors.mean, tensors.rstd, row);
  RowSums products = {0.f, 0.f};
#pragma unroll 2
  for (int64_t col = threadIdx.x; col < cols; col += SPLIT_THREADS)
    add_products(load(tensors.x + first + col), load(tensors.dy + first + col), load(tensors.weight + col), of,
                 products);
  const RowSums total = sum_row<SPLIT_THREADS, 1>(products, 0);
  const RowSums means = {total.of_products * inverse_hidden, total.of_scaled * inverse_hidden};
#pragma unroll 2
  for (int64_t col = threadIdx.x; col < cols; col += SPLIT_THREADS) {
    const Element x = load(tensors.x + first + col), dy = load(tensors.dy + first + col);
    Element added{};
    if (HAS_RESIDUAL) added = load(tensors.dnew_residual + first + col);
    tensors.dx[first + col] = differentiate(x, dy, load(tensors.weight + col), added, of, means);
  }
}

}  // namespace
