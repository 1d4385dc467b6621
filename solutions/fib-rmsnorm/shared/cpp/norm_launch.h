// Checks the tensors of a norm, chooses how it runs, and shares its rows out among threads.
//
// Each row is read from memory once: when it is scaled, while the next is summed, it is found in
// the L1 cache.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "row_launch.h"
#include "row_task.h"
#include "tensor_checks.h"
#include "thread_pool.h"

namespace {

constexpr SharingBytes SHARING{128 << 10, 512 << 10};

// Where the shape was tuned, a table says how; these hold elsewhere.
//
// A chunk is what a thread claims at once: small enough to share the work evenly, large enough
// that it matters little that its first row is summed while none is scaled. (4096 rows: at most
// 512 KiB is 1.02 times as fast as 2 MiB; 128 KiB, 0.97.)
constexpr int64_t MIN_CHUNK_BYTES = 64 << 10;
constexpr int64_t MAX_CHUNK_BYTES = 512 << 10;
constexpr int64_t CHUNKS_PER_THREAD = 4;

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

void CheckTensors(const NormTensors& tensors, DLDataType weight_dtype) {
  const TensorView& x = tensors.x;
  CheckX(x);
  const int64_t batch = x.size(0), hidden = x.size(1);
  if (tensors.residual) check_matches_x("residual", *tensors.residual, x, {batch, hidden});
  if (tensors.gate) check_matches_x("gate", *tensors.gate, x, {batch, hidden});
  if (tensors.weight) check_tensor("weight", *tensors.weight, x, {hidden}, weight_dtype);
  if (tensors.bias) check_tensor("bias", *tensors.bias, x, {hidden}, weight_dtype);
  check_matches_x("out", tensors.out, x, {batch, hidden});
  if (tensors.new_residual) check_matches_x("new_residual", *tensors.new_residual, x, {batch, hidden});
}

void Normalize(const NormTensors& tensors, double eps) {
  const TensorView &x = tensors.x, &out = tensors.out;
  const bool is_weight_float = tensors.weight != nullptr && tensors.weight->dtype() == FLOAT;
  const RowKernel chosen = SelectKernel(x.dtype(), is_weight_float);
  CheckTensors(tensors, chosen != nullptr && is_weight_float ? FLOAT : x.dtype());
  const RowSizes sizes(x);
  void* const new_residual = DataOrNull(tensors.new_residual);
  const Choice* choice = FindChoice(sizes.batch, sizes.hidden, sizes.itemsize);
  const bool worth_streaming = choice ? choice->stream != 0 : sizes.bytes >= STREAM_BYTES;
  const RowTask task{data(x),
                     DataOrNull(tensors.residual),
                     DataOrNull(tensors.gate),
                     DataOrNull(tensors.weight),
                     DataOrNull(tensors.bias),
                     data(out),
                     new_residual,
                     sizes.hidden,
                     eps,
                     worth_streaming && sizes.CanStream({data(out), new_residual}),
                     WorthHolding(sizes.hidden)};

  const CpuSet cpus = SHARING.ChooseCpus(sizes.bytes);
  const int64_t share = sizes.bytes / (CHUNKS_PER_THREAD * std::max(1, cpus.count()));
  const int64_t chunk_bytes =
      choice ? int64_t{choice->chunk_kib} << 10 : std::min(std::max(share, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
  const int64_t chunk_rows = std::max<int64_t>(1, chunk_bytes / sizes.row_bytes);
  ForEachChunk(DivideUp(sizes.batch, chunk_rows), cpus, SHARING.WorthWaking(sizes.bytes), [&](int64_t chunk) {
    chosen(task, chunk * chunk_rows, std::min(sizes.batch, (chunk + 1) * chunk_rows));
  });
}

}  // namespace
