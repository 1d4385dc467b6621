#pragma once

// The interface between the copy's binding and its kernels, without the headers of CUDA and tvm-ffi. The two sides are
// compiled in parallel, and the headers of either take longer to compile than the kernels.

#include <cstdint>

struct Amounts {
  const void* source;
  void* destination;
  int64_t read;     // vectors of 16 bytes
  int64_t written;  // vectors of 16 bytes
};

struct LaunchShape {
  int64_t threads;    // that share a stretch of memory
  int64_t stretches;  // per block
  int64_t vecs;       // in flight per thread
  int64_t blocks;
};

// Each function enqueues its work on the default stream, and returns an error message or null.
const char* launch_copy(const Amounts& amounts, const LaunchShape& shape);
const char* launch_driver_copy(const void* source, void* destination, int64_t bytes);
const char* launch_empty();
