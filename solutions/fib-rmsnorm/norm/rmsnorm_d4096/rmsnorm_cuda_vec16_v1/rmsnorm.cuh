#pragma once

// The device side of RMSNorm for fp16, bf16 and fp32: float32 arithmetic, rounded once.
//
// A memory-bound operator is fast when its bytes are requested early, and once. Each thread loads its part of
// the row as 16-byte vectors and keeps it in registers until the row's sum is known, so x is read once; the
// weight is requested before anything waits for x. Where the threads of a row are known to the compiler, the way
// to the first load and through the reduction is short. What each of this gave is in docs/kernels.md.

#include <cuda_runtime.h>

#include <cstdint>

#include "row_sum.cuh"
#include "vec.cuh"

namespace {

template <typename Pair>
__device__ float sum_of_squares(const Vec<Pair>& x) {
  float2 sum = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < Vec<Pair>::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    sum.x += value.x * value.x;
    sum.y += value.y * value.y;
  }
  return sum.x + sum.y;
}

template <typename Pair>
__device__ Vec<Pair> scale(const Vec<Pair>& x, const Vec<Pair>& weight, float rstd) {
  Vec<Pair> out;
#pragma unroll
  for (int i = 0; i < Vec<Pair>::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    const float2 by = widen(weight.pairs()[i]);
    narrow({value.x * rstd * by.x, value.y * rstd * by.y}, out.pairs()[i]);
  }
  return out;
}

// The same two operations on a single element, for rows that 16-byte vectors cannot address.
template <typename T>
__device__ float sum_of_squares(const T& x) {
  return static_cast<float>(x) * static_cast<float>(x);
}

template <typename T>
__device__ T scale(const T& x, const T& weight, float rstd) {
  return static_cast<T>(static_cast<float>(x) * rstd * static_cast<float>(weight));
}

// rsqrtf is within 2 ulp of float32, thousands of times finer than the rounding of a 16-bit output.
__device__ float reciprocal_rms(float sum, float inverse_hidden, float eps) {
  return rsqrtf(sum * inverse_hidden + eps);
}

// Rows of 8192 elements take four vectors a thread, and 512 of them fit an H200 at once only if 64 registers suffice.
// Elsewhere registers matter less than early loads: to ask for one block per multiprocessor says so.
constexpr int TIGHT_VECS = 4;
constexpr int TIGHT_THREADS = 1024;  // of a multiprocessor

template <int VECS, int THREADS>
constexpr int LEAST_BLOCKS = VECS == TIGHT_VECS ? TIGHT_THREADS / THREADS : 1;

// One row for a block of THREADS, which hold VECS vectors each: the row is exactly as long.
template <typename Pair, int VECS, int THREADS>
__global__ void __launch_bounds__(THREADS, (LEAST_BLOCKS<VECS, THREADS>))
    rmsnorm_row(const Vec<Pair>* x_ptr, const Vec<Pair>* weight_ptr, Vec<Pair>* out_ptr, float eps, unsigned int none) {
  constexpr int HIDDEN = THREADS * VECS * Vec<Pair>::PAIRS * 2;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (THREADS * VECS) + threadIdx.x;

  Vec<Pair> x[VECS], weight[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) x[i] = load_now(x_ptr + first + i * THREADS);
#pragma unroll
  for (int i = 0; i < VECS; ++i) weight[i] = load_now(weight_ptr + threadIdx.x + i * THREADS);
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if (VECS == TIGHT_VECS) arrive_with(x[i], weight[i], none);
  }

  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += sum_of_squares(x[i]);
  const float rstd = reciprocal_rms(block_sum<THREADS>(sum), 1.f / HIDDEN, eps);

#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if (VECS > 4) keep_packed(x[i], rstd);
    out_ptr[first + i * THREADS] = scale(x[i], weight[i], rstd);
  }
}

// Rows of any length: blockDim = (threads per row, rows per block). Each thread holds up to VECS vectors of its row.
template <typename Pair, int VECS>
__global__ void __launch_bounds__(MAX_THREADS)
    rmsnorm_rows(const Vec<Pair>* x_ptr, const Vec<Pair>* weight_ptr, Vec<Pair>* out_ptr, int64_t batch,
                 int vecs_per_row, float inverse_hidden, float eps) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int cols = row < batch ? vecs_per_row : 0;  // past the last row: load nothing, but reach the barrier
  const Vec<Pair>* x_row = x_ptr + row * vecs_per_row;
  Vec<Pair>* out_row = out_ptr + row * vecs_per_row;

  Vec<Pair> x[VECS], weight[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    x[i] = {};
    if (col < cols) x[i] = load_now(x_row + col);
  }
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    if (col < cols) weight[i] = load_now(weight_ptr + col);
  }

  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += sum_of_squares(x[i]);
  const float rstd = reciprocal_rms(row_sum(sum), inverse_hidden, eps);

#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if (VECS > 4) keep_packed(x[i], rstd);
    const int col = threadIdx.x + i * blockDim.x;
    if (col < cols) out_row[col] = scale(x[i], weight[i], rstd);
  }
}

// One row per block, read twice: rows too long for registers, and rows that are not made of 16-byte vectors
// (Element is then a single number).
template <typename Element>
__global__ void __launch_bounds__(MAX_THREADS)
    rmsnorm_loop(const Element* x_ptr, const Element* weight_ptr, Element* out_ptr, int64_t cols, float inverse_hidden,
                 float eps) {
  const Element* x_row = x_ptr + blockIdx.x * cols;
  Element* out_row = out_ptr + blockIdx.x * cols;

  float sum = 0.f;
#pragma unroll 4
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) sum += sum_of_squares(load(x_row + col));
  const float rstd = reciprocal_rms(row_sum(sum), inverse_hidden, eps);
#pragma unroll 4
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x)
    out_row[col] = scale(load(x_row + col), load(weight_ptr + col), rstd);
}

}  // namespace
