// How rmsnorm_cuda_vec16_v1 launches, by shape. Made by `fib-rmsnorm tune`: do not edit.
//
// NVIDIA H200, 2026-11-21, timer cupti, 3 combinations:
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
      // 1: 1.44 us, 8: 1.56 us, 32: 1.63 us, 128: 1.88 us, 512: 3.08 us, 4096: 15.31 us, 16384: 61.45 us,
      // 65536: 250.12 us
      {4096, 2, INT64_MAX, {256, 1}},
      // 1: 1.31 us, 32: 1.52 us (+0.3%), 512: 2.17 us
      {2048, 2, 1448, {256, 1}},
      // 4096: 8.33 us, 65536: 123.02 us
      {2048, 2, INT64_MAX, {128, 1}},
      // 1: 1.79 us, 32: 1.96 us
      {8192, 2, 128, {512, 1}},
      // 512: 4.83 us, 4096: 30.26 us
      {8192, 2, 16384, {256, 1}},
      // 65536: 506.06 us
      {8192, 2, INT64_MAX, {128, 1}},
  };
  for (const Row& row : ROWS) {
    if (row.hidden == hidden && row.itemsize == itemsize && batch <= row.largest_batch) return &row.choice;
  }
  return nullptr;
}

}  // namespace
