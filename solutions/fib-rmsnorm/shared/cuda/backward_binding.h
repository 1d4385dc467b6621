#pragma once

// The way in: checks what the kernels are given, and gets the memory that they need.

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <optional>

#include "backward.h"
#include "tensor_checks.h"

namespace {

constexpr DLDataType FLOAT32{kDLFloat, 32, 1};

auto launcher_for(DLDataType dtype) {
  if (dtype == DLDataType{kDLFloat, 16, 1}) return launch_fp16;
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return launch_bf16;
  if (dtype == FLOAT32) return launch_fp32;
  TVM_FFI_THROW(TypeError) << "x: expected dtype float16, bfloat16 or float32, got " << dtype;
  TVM_FFI_UNREACHABLE();
}

const float* check_statistic(const char* name, const TensorView& tensor, const TensorView& x) {
  check_tensor(name, tensor, x, {x.size(0)}, FLOAT32);
  return static_cast<const float*>(data(tensor));
}

void check(const char* error) {
  if (error != nullptr) TVM_FFI_THROW(RuntimeError) << "CUDA: " << error;
}

// Memory of the device for the work that is enqueued meanwhile. The caller's allocator knows its stream, and its CUDA
// graph; without one, as in a program without torch, it is the driver's pool.
class Workspace {
 public:
  Workspace(int64_t bytes, DLDevice device, void* stream) : device_(device.device_id), stream_(stream) {
    if (bytes == 0) return;
    if (TVMFFIEnvGetDLPackManagedTensorAllocator() != nullptr) {
      tensor_ = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {bytes / static_cast<int64_t>(sizeof(float))},
                                               FLOAT32, device);
      ptr_ = tensor_->data_ptr();
    } else {
      check(allocate(bytes, device_, stream_, ptr_));
    }
  }
  ~Workspace() {
    if (ptr_ != nullptr && !tensor_) release(ptr_, device_, stream_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  float* get() const { return static_cast<float*>(ptr_); }

 private:
  int device_;
  void* stream_;
  std::optional<tvm::ffi::Tensor> tensor_;
  void* ptr_ = nullptr;
};

// `dnew_residual`, `mean` and `dbias` are null where the operator has none.
void differentiate(const TensorView& dy, const TensorView* dnew_residual, const TensorView& x, const TensorView& weight,
                   const TensorView* mean, const TensorView& rstd, const TensorView& dx, const TensorView& dweight,
                   const TensorView* dbias) {
  const DLDevice device = x.device();
  if (device.device_type != kDLCUDA)
    TVM_FFI_THROW(ValueError) << "x: expected a CUDA tensor, got DLPack device type " << device.device_type;
  if (x.ndim() != 2) TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
  const int64_t batch = x.size(0), hidden = x.size(1);
  check_matches_x("x", x, x, {batch, hidden});
  check_matches_x("dy", dy, x, {batch, hidden});
  if (dnew_residual) check_matches_x("dnew_residual", *dnew_residual, x, {batch, hidden});
  check_matches_x("weight", weight, x, {hidden});
  check_matches_x("dx", dx, x, {batch, hidden});
  check_matches_x("dweight", dweight, x, {hidden});
  if (dbias) check_matches_x("dbias", *dbias, x, {hidden});
  if (batch > INT32_MAX / 2)
    TVM_FFI_THROW(ValueError) << "x: expected a batch of at most " << INT32_MAX / 2 << " rows, got " << batch;
  const auto launch = launcher_for(x.dtype());
  const Gradients call{data(dy),
                       dnew_residual ? data(*dnew_residual) : nullptr,
                       data(x),
                       data(weight),
                       mean ? check_statistic("mean", *mean, x) : nullptr,
                       check_statistic("rstd", rstd, x),
                       data(dx),
                       data(dweight),
                       dbias ? data(*dbias) : nullptr,
                       batch,
                       hidden};
  if (hidden == 0) return;

  Plan how;
  check(plan(call, x.dtype().bits / 8, device.device_id, how));
  void* const stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  const Workspace workspace(how.workspace, device, stream);
  check(launch(call, how, workspace.get(), device.device_id, stream));
}

}  // namespace
