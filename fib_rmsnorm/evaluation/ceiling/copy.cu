// The copy that kernels are measured against: it reads and writes given numbers of bytes, and does nothing else.
// Surplus reads are folded together, so that the compiler keeps them. Surplus writes come from registers. One kernel
// serves every launch shape; its caller tries them.

#include "copy_launch.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int MAX_THREADS = 1024;

__global__ void empty_kernel() {}

// blockDim = (threads that share a stretch of memory, stretches). Each thread has VECS loads in flight. With
// __restrict__ pointers or __ldg, the compiler would move loads behind stores to save registers. There are variants
// without LOOP and FOLD because a kernel of one microsecond pays for all code that it fetches from a cold cache.
template <int VECS, bool LOOP, bool FOLD>
__global__ void __launch_bounds__(MAX_THREADS)
    copy_kernel(const uint4* source, uint4* destination, int64_t read, int64_t written) {
  const int64_t stretch = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  int64_t first = stretch * (blockDim.x * VECS) + threadIdx.x;
  uint4 fold = {};
#pragma unroll 1
  do {
    uint4 vecs[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int64_t index = first + i * blockDim.x;
      vecs[i] = index < read ? source[index] : uint4{};
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int64_t index = first + i * blockDim.x;
      if (index < written) {
        destination[index] = vecs[i];
      } else if (FOLD) {
        fold = {fold.x ^ vecs[i].x, fold.y ^ vecs[i].y, fold.z ^ vecs[i].z, fold.w ^ vecs[i].w};
      }
    }
    first += static_cast<int64_t>(gridDim.x) * blockDim.y * (blockDim.x * VECS);
  } while (LOOP && first < (FOLD ? read : written));
  // Never true for random contents, but the compiler does not know that.
  if (FOLD && (fold.x & fold.y & fold.z & fold.w) == 0xffffffffu) destination[0] = fold;
}

using CopyKernel = void (*)(const uint4*, uint4*, int64_t, int64_t);

template <int VECS>
CopyKernel select(bool loop, bool fold) {
  if (loop) return fold ? copy_kernel<VECS, true, true> : copy_kernel<VECS, true, false>;
  return fold ? copy_kernel<VECS, false, true> : copy_kernel<VECS, false, false>;
}

// Returns null if there is no kernel for a number of vectors.
CopyKernel select(int64_t vecs, bool loop, bool fold) {
  switch (vecs) {
    case 1: return select<1>(loop, fold);
    case 2: return select<2>(loop, fold);
    case 4: return select<4>(loop, fold);
    case 8: return select<8>(loop, fold);
  }
  return nullptr;
}

const char* describe(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

}  // namespace

const char* launch_copy(const Amounts& amounts, const LaunchShape& shape) {
  const bool fold = amounts.read > amounts.written;
  const bool loop =
      shape.blocks * shape.stretches * shape.threads * shape.vecs < (fold ? amounts.read : amounts.written);
  const CopyKernel kernel = select(shape.vecs, loop, fold);
  if (kernel == nullptr) return "vecs: expected 1, 2, 4 or 8";
  const dim3 block(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.stretches));
  kernel<<<static_cast<unsigned>(shape.blocks), block>>>(static_cast<const uint4*>(amounts.source),
                                                         static_cast<uint4*>(amounts.destination), amounts.read,
                                                         amounts.written);
  return describe(cudaGetLastError());
}

const char* launch_driver_copy(const void* source, void* destination, int64_t bytes) {
  return describe(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice));
}

const char* launch_empty() {
  empty_kernel<<<1, 32>>>();
  return describe(cudaGetLastError());
}
