#pragma once

// What the copy's binding and its kernels agree on, without CUDA's headers and without tvm-ffi's: the two sides
// are compiled side by side, and either's headers take a compiler longer than the kernels do.

#include <cstdint>

struct Amounts {
  const void* source;
  void* destination;
  int64_t read;     // vectors of 16 bytes
  int64_t written;  // the same
};

struct LaunchShape {
  int64_t threads;    // that share a stretch of memory
  int64_t stretches;  // of a block
  int64_t vecs;       // that each thread has in flight
  int64_t blocks;
};

// Each enqueues its work on the default stream, and returns what went wrong, or null.
const char* launch_copy(const Amounts& amounts, const LaunchShape& shape);
const char* launch_driver_copy(const void* source, void* destination, int64_t bytes);
const char* launch_empty();
