// How the work of a call is spread over a device, and memory for it.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "backward.h"
#include "backward_device.cuh"

namespace {

constexpr int VECTOR_BYTES = 16;
// Fewer rows for each multiprocessor are better read twice than added by a second kernel: measured on an H200, where
// the gradient of a residual makes rows longer.
constexpr int FEW_ROWS = HAS_RESIDUAL ? 3 : 8;
// More vectors are shared by 512 threads: the gradient of a residual takes registers.
constexpr int MAX_VECS_OF_256 = HAS_RESIDUAL ? 256 : 512;

bool is_aligned(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr) % VECTOR_BYTES == 0; }

// Whether all rows can be addressed as vectors.
bool has_vectors(const Gradients& call, int itemsize) {
  if (call.hidden * itemsize % VECTOR_BYTES != 0) return false;
  const auto pointers = {call.dy, call.x, call.weight, static_cast<const void*>(call.dx)};
  return std::all_of(pointers.begin(), pointers.end(), is_aligned) && (!HAS_RESIDUAL || is_aligned(call.dnew_residual));
}

// Of the device that was last asked about: to ask the runtime takes 0.05 us.
cudaError_t count_multiprocessors(int device, int& count) {
  thread_local int asked = -1, answer = 0;
  if (asked != device) {
    const cudaError_t error = cudaDeviceGetAttribute(&answer, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return error;
    asked = device;
  }
  count = answer;
  return cudaSuccess;
}

}  // namespace

const char* allocate(int64_t bytes, int device, void* stream, void*& memory) {
  return run_on(device, [&] { return cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(stream)); });
}

const char* release(void* memory, int device, void* stream) {
  return run_on(device, [&] { return cudaFreeAsync(memory, static_cast<cudaStream_t>(stream)); });
}

const char* plan(const Gradients& call, int itemsize, int device, Plan& plan) {
  plan = {};
  if (!has_vectors(call, itemsize)) return nullptr;
  const int64_t vecs_per_row = call.hidden * itemsize / VECTOR_BYTES;
  plan.threads_per_row = vecs_per_row <= MAX_VECS_OF_256 ? 256 : 512;
  plan.vecs_per_thread = 1;
  while (plan.vecs_per_thread * plan.threads_per_row < vecs_per_row) plan.vecs_per_thread *= 2;
  int multiprocessors = 0;
  const cudaError_t error = count_multiprocessors(device, multiprocessors);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  if (call.batch < FEW_ROWS * static_cast<int64_t>(multiprocessors) || vecs_per_row > MAX_VECS_PER_ROW) return nullptr;
  plan.rows = vecs_per_row > 512 ? 1 : ROWS_AT_ONCE;
  plan.blocks = multiprocessors;
  plan.workspace = static_cast<int64_t>(SUMS) * plan.blocks * call.hidden * sizeof(float);
  return nullptr;
}
