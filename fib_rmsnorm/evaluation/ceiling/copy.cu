// The limit that kernels are measured against: it moves the traffic of a Definition, and does nothing else. It reads
// and writes as many streams at a time as the Definition has large tensors. What it writes is the XOR of all that it
// read at the same place, so the compiler keeps every read. The caller tries many launch shapes and instructions.

#include <cuda_runtime.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>

namespace {

constexpr int MAX_THREADS = 1024;
constexpr int MAX_READS = 4, MAX_WRITES = 3;  // streams
constexpr int MAX_LOADS = 8;                  // in flight per thread: more need more registers than 1024 threads have

// PLAIN loads and stores; or STREAMING ones, whose lines are evicted first; or GROUPED ones, which store only once the
// whole block has loaded, as a kernel does that reduces rows: memory switches less often between reading and writing.
enum Instructions { PLAIN, STREAMING, GROUPED };

// In vectors of 16 bytes. The streams of a direction lie `stride` apart, or are halves of a tensor, in pairs. All have
// `vectors`, but the last of a direction has its own number: the bytes of small tensors follow it.
struct Traffic {
  const uint4* source;
  uint4* destination;
  int64_t stride, vectors, last_read, last_written, most;
  bool in_pairs;
};

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

__global__ void empty_kernel() {}

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

using CopyKernel = void (*)(Traffic);

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

template <int VECS, int READS = 1, int WRITES = 1>
CopyKernel select(int64_t reads, int64_t writes, int64_t instructions, bool loop) {
  if constexpr (READS > MAX_READS || WRITES > MAX_WRITES || VECS * READS > MAX_LOADS) {
    return nullptr;
  } else {
    if (reads > READS) return select<VECS, READS + 1, WRITES>(reads, writes, instructions, loop);
    if (writes > WRITES) return select<VECS, READS, WRITES + 1>(reads, writes, instructions, loop);
    return select<VECS, READS, WRITES>(instructions, loop);
  }
}

CopyKernel select(int64_t vecs, int64_t reads, int64_t writes, int64_t instructions, bool loop) {
  switch (vecs) {
    case 1: return select<1>(reads, writes, instructions, loop);
    case 2: return select<2>(reads, writes, instructions, loop);
    case 4: return select<4>(reads, writes, instructions, loop);
    case 8: return select<8>(reads, writes, instructions, loop);
  }
  return nullptr;
}

void check(cudaError_t error) {
  if (error != cudaSuccess) TVM_FFI_THROW(RuntimeError) << "CUDA: " << cudaGetErrorString(error);
}

void copy(int64_t source, int64_t destination, int64_t stride, int64_t vectors, int64_t last_read, int64_t last_written,
          int64_t reads, int64_t writes, bool in_pairs, int64_t threads, int64_t vecs, int64_t blocks,
          int64_t instructions) {
  const int64_t most = last_read > last_written ? last_read : last_written;
  const CopyKernel kernel = select(vecs, reads, writes, instructions, blocks * threads * vecs < most);
  if (kernel == nullptr) TVM_FFI_THROW(ValueError) << "no kernel for " << vecs << " vectors of " << reads << " streams";
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads)>>>(
      {reinterpret_cast<const uint4*>(source), reinterpret_cast<uint4*>(destination), stride, vectors, last_read,
       last_written, most, in_pairs});
  check(cudaGetLastError());
}

void empty() {
  empty_kernel<<<1, 32>>>();
  check(cudaGetLastError());
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy, copy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(empty, empty);
