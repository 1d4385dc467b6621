// How rmsnorm_cuda_vec16_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.
//
// NVIDIA H200, 2026-11-21, timer cupti, 9 combinations:
// each choice is the fastest at the batches beside it, or within 1% of it.
#pragma once

#include <cstdint>

namespace {

struct Choice {
  int threads;
  int rows;
};

// Of the device it was measured on.
constexpr int TUNED_MULTIPROCESSORS = 132;

// The choice for a shape, or nullptr for one that was never measured.
inline const Choice* find_choice(int64_t batch, int64_t hidden, int64_t itemsize) {
  struct Row {
    int64_t hidden, itemsize, largest_batch;
    Choice choice;
  };
  static constexpr Row ROWS[] = {
      // 1: 1.42 us, 8: 1.56 us, 32: 1.63 us, 128: 1.88 us, 512: 3.11 us, 4096: 15.34 us, 16384: 61.13 us,
      // 65536: 250.14 us
      {4096, 2, INT64_MAX, {256, 1}},
  };
  for (const Row& row : ROWS) {
    if (row.hidden == hidden && row.itemsize == itemsize && batch <= row.largest_batch) return &row.choice;
  }
  return nullptr;
}

}  // namespace
