#pragma once

// The way in for a Solution's binding: checks the tensors that it is given, and enqueues the kernel of its form.

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

#include "form.h"
#include "norm_call.h"
#include "tensor_checks.h"

namespace {

constexpr DLDataType FLOAT16{kDLFloat, 16, 1}, BFLOAT16{kDLBfloat, 16, 1}, FLOAT32{kDLFloat, 32, 1};
constexpr DLDataType E4M3{kDLFloat8_e4m3fn, 8, 1}, E5M2{kDLFloat8_e5m2, 8, 1};

// A call in the making. A binding names each tensor of its form once, and launches.
class Norm {
 public:
  Norm(TensorView x, double eps) : x_(x), weight_dtype_(x.dtype()) {
    const DLDevice device = x.device();
    if (device.device_type != kDLCUDA)
      TVM_FFI_THROW(ValueError) << "x: expected a CUDA tensor, got DLPack device type " << device.device_type;
    if (x.ndim() != 2) TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
    call_.batch = x.size(0);
    call_.hidden = x.size(1);
    call_.eps = static_cast<float>(eps);
    call_.x = rows("x", x);
    if (call_.batch > INT32_MAX)
      TVM_FFI_THROW(ValueError) << "x: expected a batch of at most " << INT32_MAX << " rows, got " << call_.batch;
  }

  Norm& residual(TensorView residual) { return call_.residual = rows("residual", residual), *this; }
  Norm& gate(TensorView gate) { return call_.gate = rows("gate", gate), *this; }
  Norm& out(TensorView out) { return call_.out = rows("out", out), *this; }
  Norm& new_residual(TensorView out) { return call_.new_residual = rows("new_residual", out), *this; }

  Norm& weight(TensorView weight) {
    if (SolutionForm::MAY_HAVE_FLOAT_WEIGHT && weight.dtype() == FLOAT32) weight_dtype_ = FLOAT32;
    check_tensor("weight", weight, x_, {call_.hidden}, weight_dtype_);
    return call_.weight = data(weight), *this;
  }

  Norm& bias(TensorView bias) {
    check_tensor("bias", bias, x_, {call_.hidden}, weight_dtype_);
    return call_.bias = data(bias), *this;
  }

  Norm& float8_out(TensorView out) {
    call_.is_e5m2 = out.dtype() == E5M2;
    if (!call_.is_e5m2 && out.dtype() != E4M3)
      TVM_FFI_THROW(TypeError) << "out: expected dtype float8_e4m3fn or float8_e5m2, got " << out.dtype();
    check_tensor("out", out, x_, {call_.batch, call_.hidden}, out.dtype());
    return call_.out = data(out), *this;
  }

  // A number, or a tensor of one element on the device.
  Norm& scale(tvm::ffi::AnyView scale) {
    if (const auto tensor = scale.try_cast<TensorView>()) {
      if (tensor->ndim() == 1) {
        check_tensor("out_scale", *tensor, x_, {1}, FLOAT32);
      } else {
        check_tensor("out_scale", *tensor, x_, {}, FLOAT32);
      }
      call_.scale_ptr = static_cast<const float*>(data(*tensor));
    } else {
      call_.scale = static_cast<float>(scale.cast<double>());
    }
    return *this;
  }

  Norm& row_scales(TensorView scales) {
    check_tensor("out_scale", scales, x_, {call_.batch}, FLOAT32);
    return call_.row_scales = static_cast<float*>(data(scales)), *this;
  }

  void launch() const {
    const auto launch_dtype = find_launch();
    if (call_.batch == 0 || call_.hidden == 0) return;
    const DLDevice device = x_.device();
    void* const stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
    const char* const error = launch_dtype(call_, device.device_id, stream);
    if (error != nullptr) TVM_FFI_THROW(RuntimeError) << "CUDA: " << error;
  }

 private:
  void* rows(const char* name, const TensorView& tensor) const {
    check_tensor(name, tensor, x_, {call_.batch, call_.hidden}, x_.dtype());
    return data(tensor);
  }

  LaunchNorm find_launch() const {
    const DLDataType dtype = x_.dtype();
    if (dtype == FLOAT32) return launch_fp32;
    if constexpr (SolutionForm::MAY_HAVE_FLOAT_WEIGHT) {
      if (weight_dtype_ == FLOAT32 && dtype == FLOAT16) return launch_fp16_weight_fp32;
      if (weight_dtype_ == FLOAT32 && dtype == BFLOAT16) return launch_bf16_weight_fp32;
    }
    if (dtype == FLOAT16) return launch_fp16;
    if (dtype == BFLOAT16) return launch_bf16;
    TVM_FFI_THROW(TypeError) << "x: expected dtype float16, bfloat16 or float32, got " << dtype;
    TVM_FFI_UNREACHABLE();
  }

  TensorView x_;
  DLDataType weight_dtype_;
  NormCall call_{};
};

}  // namespace
