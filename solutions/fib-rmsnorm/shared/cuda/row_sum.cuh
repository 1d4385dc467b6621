#pragma once

// Sums, and the largest numbers, over the threads that share a row, for every one of them.

#include <cuda_runtime.h>

namespace {

constexpr int WARP = 32;
constexpr int MAX_THREADS = 512;
constexpr int MAX_WARPS = MAX_THREADS / WARP;
// Only rows wider than one warp meet in shared memory, and a block has at most this many of them.
constexpr int MAX_SHARED_ROWS = MAX_THREADS / (2 * WARP);

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

struct Plus {
  __device__ float operator()(float one, float other) const { return one + other; }
};
struct Larger {
  __device__ float operator()(float one, float other) const { return fmaxf(one, other); }
};

// The same over the blockDim.x threads that share one of blockDim.y rows. blockDim.x is a power of two below a
// warp, or a multiple of a warp. Combines numbers of at least 0, or adds any. A kernel that calls it again names
// another USE, whose place in shared memory nobody still reads.
template <int USE, class Combine>
__device__ float row_combine(float mine, Combine combine) {
  if (blockDim.x <= WARP) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, mine, offset);
      if (offset < blockDim.x) mine = combine(mine, other);
    }
    return mine;
  }
  // The slots of absent warps are zeroed so that the read needs no bounds.
  alignas(16) __shared__ float partials[MAX_SHARED_ROWS][MAX_WARPS];
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) mine = combine(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
  const int lane = threadIdx.x % WARP;
  const int slot = threadIdx.x / WARP + lane * (blockDim.x / WARP);
  if (slot < MAX_WARPS) partials[threadIdx.y][slot] = lane == 0 ? mine : 0.f;
  __syncthreads();
  const float4 four = reinterpret_cast<const float4*>(partials[threadIdx.y])[lane % (MAX_WARPS / 4)];
  mine = combine(combine(four.x, four.y), combine(four.z, four.w));
#pragma unroll
  for (int offset = MAX_WARPS / 8; offset > 0; offset /= 2)
    mine = combine(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
  return mine;
}

template <int USE = 0>
__device__ float row_sum(float sum) {
  return row_combine<USE>(sum, Plus{});
}

template <int USE = 0>
__device__ float row_largest(float magnitude) {
  return row_combine<USE>(magnitude, Larger{});
}

}  // namespace
