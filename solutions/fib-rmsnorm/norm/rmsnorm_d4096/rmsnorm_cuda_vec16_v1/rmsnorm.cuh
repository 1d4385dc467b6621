#pragma once

// The device side of RMSNorm for fp16, bf16 and fp32: float32 arithmetic, rounded once.
//
// A memory-bound operator is fast when its bytes are requested early, and once. Each thread loads its part of
// the row as 16-byte vectors and keeps it in registers until the row's sum is known, so x is read once; the
// weight is requested before anything waits for x. Where the threads of a row are known to the compiler, the way
// to the first load and through the reduction is short. What each of this gave is in docs/kernels.md.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int WARP = 32;
constexpr int MAX_THREADS = 512;
constexpr int MAX_WARPS = MAX_THREADS / WARP;
// x and weight then take 64 of the 128 registers that 512 threads can have each.
constexpr int MAX_VECS_PER_THREAD = 8;
constexpr int FULL_BLOCK = 128;
// Only rows wider than one warp meet in shared memory, and a block has at most this many of them.
constexpr int MAX_SHARED_ROWS = MAX_THREADS / (2 * WARP);

// 16 bytes of a row. It moves as raw words, since the compiler would load and store an array of pairs pair by
// pair; the arithmetic sees pairs, because the hardware converts two elements at a time.
template <typename Pair>
struct Vec {
  static constexpr int PAIRS = sizeof(uint4) / sizeof(Pair);
  uint4 words;
  __device__ Pair* pairs() { return reinterpret_cast<Pair*>(&words); }
  __device__ const Pair* pairs() const { return reinterpret_cast<const Pair*>(&words); }
};

// __ldg, since even a plain copy of words is split when it is only used as pairs. Reading x through the
// read-only path is safe in place too: a thread reads its own elements before it writes them.
template <typename Pair>
__device__ Vec<Pair> load(const Vec<Pair>* ptr) {
  return {__ldg(reinterpret_cast<const uint4*>(ptr))};
}

template <typename T>
__device__ T load(const T* ptr) {
  return *ptr;
}

// Requests it here and now: loads through the read-only path the compiler moves down to where they are used, and
// those of the weight would wait until x has arrived.
template <typename Pair>
__device__ Vec<Pair> load_now(const Vec<Pair>* ptr) {
  uint4 words;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(ptr));
  return {words};
}

__device__ float2 widen(__half2 pair) { return __half22float2(pair); }
__device__ float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ float2 widen(float2 pair) { return pair; }

__device__ void narrow(float2 pair, __half2& to) { to = __float22half2_rn(pair); }
__device__ void narrow(float2 pair, __nv_bfloat162& to) { to = __float22bfloat162_rn(pair); }
__device__ void narrow(float2 pair, float2& to) { to = pair; }

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

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

// Sums over a block of THREADS and returns the total to every one of them. Every thread reads all partial sums
// and adds them in the same order, so nobody has to hand the total back: one barrier suffices.
template <int THREADS>
__device__ float block_sum(float sum) {
  alignas(16) __shared__ float partials[THREADS / WARP];
  sum = warp_sum(sum);
  if (threadIdx.x % WARP == 0) partials[threadIdx.x / WARP] = sum;
  __syncthreads();
  sum = 0.f;
#pragma unroll
  for (int i = 0; i < THREADS / WARP; i += 4) {
    const float4 four = reinterpret_cast<const float4*>(partials)[i / 4];
    sum += (four.x + four.y) + (four.z + four.w);
  }
  return sum;
}

// The same over the blockDim.x threads that share one of blockDim.y rows. blockDim.x is a power of two below a
// warp, or a multiple of a warp.
__device__ float row_sum(float sum) {
  if (blockDim.x <= WARP) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, sum, offset);
      if (offset < blockDim.x) sum += other;
    }
    return sum;
  }
  // The slots of absent warps are zeroed so that the read needs no bounds.
  alignas(16) __shared__ float partials[MAX_SHARED_ROWS][MAX_WARPS];
  sum = warp_sum(sum);
  const int lane = threadIdx.x % WARP;
  const int slot = threadIdx.x / WARP + lane * (blockDim.x / WARP);
  if (slot < MAX_WARPS) partials[threadIdx.y][slot] = lane == 0 ? sum : 0.f;
  __syncthreads();
  const float4 four = reinterpret_cast<const float4*>(partials[threadIdx.y])[lane % (MAX_WARPS / 4)];
  sum = (four.x + four.y) + (four.z + four.w);
#pragma unroll
  for (int offset = MAX_WARPS / 8; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

// rsqrtf is within 2 ulp of float32, thousands of times finer than the rounding of a 16-bit output.
__device__ float reciprocal_rms(float sum, float inverse_hidden, float eps) {
  return rsqrtf(sum * inverse_hidden + eps);
}

// Widening x for the sum of squares and again for the scaling costs little. The compiler prefers to keep the
// wide values in between, two registers where the packed pair takes one, and spills. This ties the packed
// words to rstd, so that they cannot be widened before it is known. The sign bit of rstd is always 0, which
// the compiler cannot know. Up to four vectors there are registers enough, and keeping the wide values is 5%
// faster (15.7 against 16.5 us for 4096 rows on an H200).
template <typename Pair>
__device__ void keep_packed(Vec<Pair>& x, float rstd) {
  const unsigned int zero = __float_as_uint(rstd) >> 31;
  x.words = {x.words.x ^ zero, x.words.y ^ zero, x.words.z ^ zero, x.words.w ^ zero};
}

// Ties x to the weight, so that it cannot be used before the weight was requested. With registers to save, ptxas
// moves even a volatile load down to where it is needed. `none` is 0, which the compiler cannot know.
template <typename Pair>
__device__ void arrive_with(Vec<Pair>& x, const Vec<Pair>& weight, unsigned int none) {
  const uint4 with = weight.words;
  x.words = {x.words.x | (with.x & none), x.words.y | (with.y & none), x.words.z | (with.z & none),
             x.words.w | (with.w & none)};
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
