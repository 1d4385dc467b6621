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

// From so many rows for each multiprocessor, LayerNorm's are requested far ahead if a thread has two vectors: with
// fewer rows, the first ones arrive late, and work on them has no time to catch up. Measured on an H200.
constexpr int ROWS_FOR_FAR_AHEAD = 48;
constexpr int SHARED_BYTES_FOR_FAR_AHEAD = 104 << 10;  // for a block: three places for rows, and the weight

struct Device {
  int multiprocessors, shared_bytes_per_block;
};

// Of the device that was last asked about: to ask the runtime takes 0.05 us.
cudaError_t describe(int device, Device& description) {
  thread_local int asked = -1;
  thread_local Device answer{};
  if (asked != device) {
    cudaError_t error = cudaDeviceGetAttribute(&answer.multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
      error = cudaDeviceGetAttribute(&answer.shared_bytes_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    asked = device;
  }
  description = answer;
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
  Device has{};
  const cudaError_t error = describe(device, has);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  const int64_t rows_of_each = call.batch / has.multiprocessors;
  if (rows_of_each < FEW_ROWS || vecs_per_row > MAX_VECS_PER_ROW) return nullptr;
  plan.rows = vecs_per_row > 512 ? 1 : ROWS_AT_ONCE;
  plan.blocks = has.multiprocessors;
  plan.is_far_ahead = IS_CENTERED && rows_of_each >= ROWS_FOR_FAR_AHEAD && plan.threads_per_row == 256 &&
                      plan.vecs_per_thread == 2 && has.shared_bytes_per_block >= SHARED_BYTES_FOR_FAR_AHEAD;
  plan.workspace = static_cast<int64_t>(SUMS) * plan.blocks * call.hidden * sizeof(float);
  return nullptr;
}
