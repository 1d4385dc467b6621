// Checks the tensors of a norm, chooses how it runs, and shares its rows out among threads.
//
// Each row is read from memory once: when it is scaled, while the next is summed, it is found in
// the L1 cache. All names have internal linkage, because several builds of these sources (one for
// each Definition they serve) may be loaded in one process.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "instruction_set.h"
#include "row_task.h"
#include "tensor_checks.h"
#include "thread_pool.h"

namespace {

// Sizes in bytes of x. Less than this is not worth sharing with a thread that is awake.
constexpr int64_t PARALLEL_BYTES = 128 << 10;

// Less than this is done before a thread that sleeps has woken up.
constexpr int64_t WAKING_BYTES = 512 << 10;

// Where the shape was tuned, a table says how; these hold elsewhere.
//
// A chunk is what a thread claims at once: small enough to share the work evenly, large enough
// that it matters little that its first row is summed while none is scaled. (4096 rows: at most
// 512 KiB is 1.02 times as fast as 2 MiB; 128 KiB, 0.97.)
constexpr int64_t MIN_CHUNK_BYTES = 64 << 10;
constexpr int64_t MAX_CHUNK_BYTES = 512 << 10;
constexpr int64_t CHUNKS_PER_THREAD = 4;

// An out of this size would be evicted from most L2 caches before anyone reads it: written around
// the caches, it need not be read from memory first. (4096 rows: 1.5 times
// as fast; 1024: as fast; 512: 0.65.)
constexpr int64_t STREAM_BYTES = 8 << 20;

// What was measured for batches of a shape, up to the next row of that shape.
struct Choice {
  int64_t hidden, itemsize, multiprocessors, min_batch;
  int chunk_kib, stream;
};

constexpr std::initializer_list<Choice> CHOICES = {
#include "choices.inc"
};

// nullptr for a shape that was never measured.
const Choice* FindChoice(int64_t batch, int64_t hidden, int64_t itemsize) {
  const Choice* found = nullptr;
  for (const Choice& each : CHOICES) {
    if (each.hidden == hidden && each.itemsize == itemsize && each.min_batch <= batch) found = &each;
  }
  return found;
}

int64_t L1CacheBytes() {
  constexpr int64_t LEAST_IN_USE = 32 << 10;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  return std::max<int64_t>(LEAST_IN_USE, sysconf(_SC_LEVEL1_DCACHE_SIZE));
#else
  return LEAST_IN_USE;
#endif
}

// Where the L1 cache has room beside what passes through it, x and the weight are held there as
// float32. (On 48 KiB: 1.15 times as fast at hidden 2048, 1.35 at 512 rows of it; at hidden 4096
// 0.95 of bfloat16, and of half no faster around the caches.)
bool WorthHolding(int64_t hidden) {
  static const int64_t l1_bytes = L1CacheBytes();
  const int64_t held_bytes = 2 * hidden * static_cast<int64_t>(sizeof(float));
  return hidden <= MAX_HELD_COLUMNS && held_bytes <= l1_bytes / 2;
}

// The arguments of a call; those that the Form does without are null.
struct NormTensors {
  const TensorView& x;
  const TensorView& out;
  const TensorView* weight = nullptr;
  const TensorView* bias = nullptr;
  const TensorView* gate = nullptr;
  const TensorView* residual = nullptr;
  const TensorView* new_residual = nullptr;
};

void* DataOrNull(const TensorView* tensor) { return tensor == nullptr ? nullptr : data(*tensor); }

constexpr DLDataType HALF{kDLFloat, 16, 1}, BFLOAT16{kDLBfloat, 16, 1}, FLOAT{kDLFloat, 32, 1};

void CheckTensors(const NormTensors& tensors, DLDataType weight_dtype) {
  const TensorView& x = tensors.x;
  const DLDeviceType device_type = x.device().device_type;
  if (device_type != kDLCPU) TVM_FFI_THROW(ValueError) << "x: expected a CPU tensor, got DLPack device " << device_type;
  if (x.ndim() != 2) TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
  const int64_t batch = x.size(0), hidden = x.size(1);
  if (hidden == 0) TVM_FFI_THROW(ValueError) << "x: expected rows of at least 1 element, got 0";
  check_matches_x("x", x, x, {batch, hidden});
  if (tensors.residual) check_matches_x("residual", *tensors.residual, x, {batch, hidden});
  if (tensors.gate) check_matches_x("gate", *tensors.gate, x, {batch, hidden});
  if (tensors.weight) check_tensor("weight", *tensors.weight, x, {hidden}, weight_dtype);
  if (tensors.bias) check_tensor("bias", *tensors.bias, x, {hidden}, weight_dtype);
  check_matches_x("out", tensors.out, x, {batch, hidden});
  if (tensors.new_residual) check_matches_x("new_residual", *tensors.new_residual, x, {batch, hidden});
}

RowKernel SelectKernel(DLDataType dtype, bool is_weight_float) {
  static const RowKernels& kernels = SelectKernels();
  if (dtype == HALF) return is_weight_float ? kernels.fp16_weight_fp32 : kernels.fp16;
  if (dtype == BFLOAT16) return is_weight_float ? kernels.bf16_weight_fp32 : kernels.bf16;
  if (dtype == FLOAT) return kernels.fp32;
  TVM_FFI_THROW(TypeError) << "x has dtype " << dtype << ", expected float16, bfloat16 or float32";
  return nullptr;  // not reached
}

void Normalize(const NormTensors& tensors, double eps) {
  const TensorView &x = tensors.x, &out = tensors.out;
  const bool is_weight_float = tensors.weight != nullptr && tensors.weight->dtype() == FLOAT;
  const RowKernel chosen = SelectKernel(x.dtype(), is_weight_float);
  CheckTensors(tensors, chosen != nullptr && is_weight_float ? FLOAT : x.dtype());
  const int64_t batch = x.size(0), hidden = x.size(1);
  const int64_t row_bytes = hidden * (x.dtype().bits / 8);
  const int64_t bytes = batch * row_bytes;
  void* const new_residual = DataOrNull(tensors.new_residual);
  const uintptr_t outputs = reinterpret_cast<uintptr_t>(data(out)) | reinterpret_cast<uintptr_t>(new_residual);
  const bool aligned = (outputs | row_bytes) % 64 == 0;
  const Choice* choice = FindChoice(batch, hidden, x.dtype().bits / 8);
  const bool stream = aligned && (choice ? choice->stream != 0 : bytes >= STREAM_BYTES);
  const RowTask task{data(x),
                     DataOrNull(tensors.residual),
                     DataOrNull(tensors.gate),
                     DataOrNull(tensors.weight),
                     DataOrNull(tensors.bias),
                     data(out),
                     new_residual,
                     hidden,
                     eps,
                     stream,
                     WorthHolding(hidden)};

  const CpuSet cpus = bytes >= PARALLEL_BYTES ? CpuSet::OfThisThread() : CpuSet();
  const int64_t share = bytes / (CHUNKS_PER_THREAD * std::max(1, cpus.count()));
  const int64_t chunk_bytes =
      choice ? int64_t{choice->chunk_kib} << 10 : std::min(std::max(share, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
  const int64_t chunk_rows = std::max<int64_t>(1, chunk_bytes / row_bytes);
  ForEachChunk((batch + chunk_rows - 1) / chunk_rows, cpus, bytes >= WAKING_BYTES,
               [&](int64_t chunk) { chosen(task, chunk * chunk_rows, std::min(batch, (chunk + 1) * chunk_rows)); });
}

}  // namespace
