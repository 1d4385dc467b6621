#pragma once

// What the binding and the kernels agree on, without CUDA's headers and without tvm-ffi's. Each side's headers are as
// much work for a compiler as the kernels of one dtype are, and all of these are compiled side by side.

#include <cstdint>

struct NormCall {
  // [batch, hidden], contiguous, of x's dtype; null where the form has none.
  const void* x;
  const void* residual;
  const void* gate;
  // [hidden], of one dtype.
  const void* weight;
  const void* bias;
  // [batch, hidden]; out of float8 where it is scaled.
  void* out;
  void* new_residual;
  // The scale of out: on the device, or, where that is null, a number.
  const float* scale_ptr;
  float scale;
  float* row_scales;  // [batch]
  bool is_e5m2;
  int64_t batch;   // 1 to INT32_MAX
  int64_t hidden;  // at least 1
  float eps;
};

using LaunchNorm = const char* (*)(const NormCall& call, int device, void* stream);

// Enqueue the work on a stream of a device. They return what went wrong, or null.
const char* launch_fp16(const NormCall& call, int device, void* stream);
const char* launch_bf16(const NormCall& call, int device, void* stream);
const char* launch_fp32(const NormCall& call, int device, void* stream);
const char* launch_fp16_weight_fp32(const NormCall& call, int device, void* stream);
const char* launch_bf16_weight_fp32(const NormCall& call, int device, void* stream);
