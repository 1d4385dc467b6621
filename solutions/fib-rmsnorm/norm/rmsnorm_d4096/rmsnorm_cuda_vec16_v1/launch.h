#pragma once

// What the binding and the kernels agree on, without CUDA's headers and without tvm-ffi's. Each side's headers are as
// much work for a compiler as the kernels of one dtype are, and all of these are compiled side by side.

#include <cstdint>

struct Rows {
  const void* x;       // [batch, hidden], contiguous
  const void* weight;  // [hidden]
  void* out;           // [batch, hidden], contiguous
  int64_t batch;       // 1 to INT32_MAX
  int64_t hidden;      // at least 1
  float eps;
};

// Enqueue the work on a stream of a device. They return what went wrong, or null.
const char* launch_fp16(const Rows& rows, int device, void* stream);
const char* launch_bf16(const Rows& rows, int device, void* stream);
const char* launch_fp32(const Rows& rows, int device, void* stream);
