#pragma once

#include <cuda_runtime.h>

namespace {

// Calls what works on the current device with this one as the current. Returns what went wrong, or null.
template <typename Function>
const char* run_on(int device, Function function) {
  int before = device;
  cudaError_t error = cudaGetDevice(&before);
  if (error == cudaSuccess && before != device) error = cudaSetDevice(device);
  if (error == cudaSuccess) error = function();
  if (error == cudaErrorDeviceUninitialized) {  // a thread's first call: the runtime gives it a context, not the driver
    error = cudaSetDevice(device);
    if (error == cudaSuccess) error = function();
  }
  if (before != device) cudaSetDevice(before);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace
