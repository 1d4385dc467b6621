#pragma once

// How rows are spread over threads. What was measured is in choices.inc, which is each Solution's own.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "row_sum.cuh"

namespace {

// x and weight then take 64 of the 128 registers that 512 threads can have each.
constexpr int MAX_VECS_PER_THREAD = 8;
constexpr int FULL_BLOCK = 128;

struct LaunchShape {
  int vecs_per_thread;
  int threads_per_row;
  int rows_per_block;
};

// What was measured for batches of a shape, up to the next row of that shape.
struct Choice {
  int64_t hidden, itemsize, multiprocessors, min_batch;
  int threads, rows;
};

constexpr std::initializer_list<Choice> CHOICES = {
#include "choices.inc"
};

// nullptr for a shape that was never measured. In rows per multiprocessor batches compare between devices.
const Choice* find_choice(int64_t batch, int64_t hidden, int itemsize, int multiprocessors) {
  const Choice* found = nullptr;
  for (const Choice& each : CHOICES) {
    if (each.hidden == hidden && each.itemsize == itemsize &&
        each.min_batch * multiprocessors <= batch * each.multiprocessors) {
      found = &each;
    }
  }
  return found;
}

int round_up_threads(int threads) {
  if (threads > WARP) return (threads + WARP - 1) / WARP * WARP;
  int power = 1;
  while (power < threads) power *= 2;
  return power;
}

// As measured where this shape was tuned. Elsewhere: few rows leave the device empty, and the time is one row's
// latency: 256 threads, whose sums are soon added, unless a thread got more than four vectors. Many rows fill it, and
// the time is throughput: fewer threads per row keep reductions short and more loads in flight per thread, if their
// registers leave room for many threads.
LaunchShape choose_shape(int64_t batch, int64_t hidden, int itemsize, int vecs_per_row, int multiprocessors,
                         bool is_light) {
  const Choice* choice = find_choice(batch, hidden, itemsize, multiprocessors);
  const int64_t rows_per_sm = batch / multiprocessors;
  const int threads_wanted = choice                         ? choice->threads
                             : rows_per_sm < 8              ? std::clamp(vecs_per_row / 4, 256, MAX_THREADS)
                             : rows_per_sm < 64 && is_light ? 128
                                                            : 256;
  int vecs = 1;
  while (vecs < MAX_VECS_PER_THREAD && vecs * threads_wanted < vecs_per_row) vecs *= 2;
  const int threads = round_up_threads((vecs_per_row + vecs - 1) / vecs);
  const int rows_wanted = choice ? choice->rows : (rows_per_sm < 8 ? WARP : FULL_BLOCK) / threads;
  return {vecs, threads, std::clamp(rows_wanted, 1, MAX_THREADS / threads)};
}

bool is_aligned(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr) % 16 == 0; }

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
