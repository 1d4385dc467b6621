// The limit that kernels are measured against: it moves the traffic of a Definition, and does nothing else. It reads
// and writes as many streams at a time as the Definition has large tensors. What it writes is the XOR of all that it
// read at the same place, so the compiler keeps every read. The caller tries many launch shapes and instructions.

#include <cuda_runtime.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>

#include "copy_kernels.h"

namespace {

__global__ void empty_kernel() {}

template <int VECS, int READS = 1>
CopyKernel select(int64_t reads, int64_t writes, int64_t instructions, bool loop) {
  if constexpr (READS > MAX_READS || VECS * READS > MAX_LOADS) {
    return nullptr;
  } else {
    if (reads > READS) return select<VECS, READS + 1>(reads, writes, instructions, loop);
    return select_copy<VECS, READS>(writes, instructions, loop);
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
