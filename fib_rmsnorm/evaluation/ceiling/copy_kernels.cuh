// The kernels of copy.cu. Each file that includes this instantiates `select_copy` for one pair of its arguments.

#pragma once

#include "copy_kernels.h"

namespace {

// PLAIN loads and stores; or STREAMING ones, whose lines are evicted first; or GROUPED ones, which store only once the
// whole block has loaded, as a kernel does that reduces rows: memory switches less often between reading and writing.
enum Instructions { PLAIN, STREAMING, GROUPED };

// Where vector `index` of a stream lies. The streams of a pair take turns by what a warp moves. Read and written side
// by side, as if they were tensors, they open more pages of memory than a kernel does: 0.7% to 1.3% slower on an H100.
template <int STREAMS>
__device__ int64_t place(const Traffic& traffic, int stream, int64_t index) {
  constexpr int64_t WARP = 32;
  if (STREAMS == 1 || !traffic.in_pairs || (stream | 1) >= STREAMS) return stream * traffic.stride + index;
  const int64_t pair = (stream & ~1) * traffic.stride;
  if (index >= traffic.vectors) return pair + traffic.vectors + index;  // small tensors, behind both
  const int64_t begin = index / WARP * WARP, left = traffic.vectors - begin;
  return pair + begin + (stream & 1) * (left < WARP ? left : WARP) + index;
}

template <Instructions INSTRUCTIONS>
__device__ uint4 load(const uint4* from) {
  if (INSTRUCTIONS != STREAMING) return *from;
  uint4 vec;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vec.x), "=r"(vec.y), "=r"(vec.z), "=r"(vec.w)
               : "l"(from));
  return vec;
}

template <Instructions INSTRUCTIONS>
__device__ void store(uint4* to, uint4 vec) {
  if (INSTRUCTIONS == STREAMING) {
    __stcs(to, vec);  // evicted first
  } else {
    *to = vec;
  }
}

// Never true for random contents, but the compiler does not know that.
__device__ bool is_all_ones(uint4 vec) { return (vec.x & vec.y & vec.z & vec.w) == 0xffffffffu; }

// Each thread has VECS loads of each stream in flight. With __restrict__ pointers or __ldg, the compiler would move
// loads behind stores to save registers. There is a variant without LOOP because a kernel of one microsecond pays for
// all code that it fetches from a cold cache.
template <int VECS, int READS, int WRITES, Instructions INSTRUCTIONS, bool LOOP>
__global__ void __launch_bounds__(MAX_THREADS) copy_kernel(Traffic traffic) {
  const int64_t span = static_cast<int64_t>(blockDim.x) * VECS;
  int64_t start = blockIdx.x * span;  // the same for the whole block, which may wait for all of its threads
#pragma unroll 1
  do {
    uint4 sums[VECS];
    uint4 vecs[VECS][READS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int64_t index = start + i * blockDim.x + threadIdx.x;
#pragma unroll
      for (int r = 0; r < READS; ++r) {
        const bool is_inside = index < (r + 1 < READS ? traffic.vectors : traffic.last_read);
        vecs[i][r] = is_inside ? load<INSTRUCTIONS>(traffic.source + place<READS>(traffic, r, index)) : uint4{};
      }
    }
    uint4 all = {};
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      sums[i] = vecs[i][0];
#pragma unroll
      for (int r = 1; r < READS; ++r) {
        const uint4 vec = vecs[i][r];
        sums[i] = {sums[i].x ^ vec.x, sums[i].y ^ vec.y, sums[i].z ^ vec.z, sums[i].w ^ vec.w};
      }
      all = {all.x ^ sums[i].x, all.y ^ sums[i].y, all.z ^ sums[i].z, all.w ^ sums[i].w};
    }
    if (INSTRUCTIONS == GROUPED) __syncthreads_or(is_all_ones(all));
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int64_t index = start + i * blockDim.x + threadIdx.x;
#pragma unroll
      for (int w = 0; w < WRITES; ++w) {
        if (index < (w + 1 < WRITES ? traffic.vectors : traffic.last_written))
          store<INSTRUCTIONS>(traffic.destination + place<WRITES>(traffic, w, index), sums[i]);
      }
    }
    if (start + span > traffic.last_written && is_all_ones(all)) traffic.destination[0] = all;  // keeps surplus reads
    start += gridDim.x * span;
  } while (LOOP && start < traffic.most);
}

template <int VECS, int READS, int WRITES, Instructions INSTRUCTIONS>
CopyKernel select(bool loop) {
  return loop ? copy_kernel<VECS, READS, WRITES, INSTRUCTIONS, true>
              : copy_kernel<VECS, READS, WRITES, INSTRUCTIONS, false>;
}

template <int VECS, int READS, int WRITES>
CopyKernel select(int64_t instructions, bool loop) {
  switch (instructions) {
    case PLAIN: return select<VECS, READS, WRITES, PLAIN>(loop);
    case STREAMING: return select<VECS, READS, WRITES, STREAMING>(loop);
    case GROUPED: return select<VECS, READS, WRITES, GROUPED>(loop);
  }
  return nullptr;
}

}  // namespace

template <int VECS, int READS>
CopyKernel select_copy(int64_t writes, int64_t instructions, bool loop) {
  switch (writes) {
    case 1: return select<VECS, READS, 1>(instructions, loop);
    case 2: return select<VECS, READS, 2>(instructions, loop);
    case 3: return select<VECS, READS, 3>(instructions, loop);
  }
  return nullptr;
}
