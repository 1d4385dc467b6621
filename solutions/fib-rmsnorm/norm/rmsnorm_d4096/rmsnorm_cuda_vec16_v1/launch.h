#pragma once

// What the binding and the kernels agree on, without CUDA's headers and without tvm-ffi's: the two sides are
// compiled side by side, and each side's headers are as much work for a compiler as the kernels are.

#include <cstdint>

enum class ElementType { FLOAT16, BFLOAT16, FLOAT32 };

struct Rows {
  const void* x;       // [batch, hidden], contiguous
  const void* weight;  // [hidden]
  void* out;           // [batch, hidden], contiguous
  int64_t batch;       // 1 to INT32_MAX
  int64_t hidden;      // at least 1
  ElementType type;
  float eps;
};

// Enqueues the work on a stream of a device. Returns what went wrong, or null.
const char* launch_rmsnorm(const Rows& rows, int device, void* stream);
