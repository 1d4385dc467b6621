// RMSNorm: out = x * rsqrt(mean(x^2) + eps) * weight. The way in: checks what it is given.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

#include "launch.h"
#include "tensor_checks.h"

namespace {

auto launcher_for(DLDataType dtype) {
  if (dtype == DLDataType{kDLFloat, 16, 1}) return launch_fp16;
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return launch_bf16;
  if (dtype == DLDataType{kDLFloat, 32, 1}) return launch_fp32;
  TVM_FFI_THROW(TypeError) << "x: expected dtype float16, bfloat16 or float32, got " << dtype;
  TVM_FFI_UNREACHABLE();
}

void run(TensorView x, TensorView weight, double eps, TensorView out) {
  const DLDevice device = x.device();
  if (device.device_type != kDLCUDA)
    TVM_FFI_THROW(ValueError) << "x: expected a CUDA tensor, got DLPack device type " << device.device_type;
  if (x.ndim() != 2) TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
  const int64_t batch = x.size(0), hidden = x.size(1);
  check_matches_x("x", x, x, {batch, hidden});
  check_matches_x("weight", weight, x, {hidden});
  check_matches_x("out", out, x, {batch, hidden});
  if (batch > INT32_MAX)
    TVM_FFI_THROW(ValueError) << "x: expected a batch of at most " << INT32_MAX << " rows, got " << batch;
  const auto launch = launcher_for(x.dtype());
  if (batch == 0 || hidden == 0) return;

  const Rows rows{data(x), data(weight), data(out), batch, hidden, static_cast<float>(eps)};
  void* const stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  const char* const error = launch(rows, device.device_id, stream);
  if (error != nullptr) TVM_FFI_THROW(RuntimeError) << "CUDA: " << error;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
