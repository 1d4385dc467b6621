// Checks of the tensors that a kernel is given, which name what is wrong.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <cstdint>
#include <initializer_list>

namespace {

using tvm::ffi::TensorView;

void* data(const TensorView& tensor) { return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset(); }

// The dtype is that of x, or another that is named alone.
void check_tensor(const char* name, const TensorView& tensor, const TensorView& x, std::initializer_list<int64_t> shape,
                  DLDataType dtype) {
  if (tensor.ndim() != static_cast<int>(shape.size()))
    TVM_FFI_THROW(ValueError) << name << ": expected " << shape.size() << " dimensions, got " << tensor.ndim();
  for (int axis = 0; axis < tensor.ndim(); ++axis) {
    const int64_t expected = shape.begin()[axis];
    if (tensor.size(axis) != expected)
      TVM_FFI_THROW(ValueError) << name << ": expected size " << expected << " on axis " << axis << ", got "
                                << tensor.size(axis);
  }
  if (tensor.dtype() != dtype)
    TVM_FFI_THROW(TypeError) << name << ": expected dtype " << dtype << (dtype == x.dtype() ? " as x" : "") << ", got "
                             << tensor.dtype();
  const DLDevice expected = x.device(), got = tensor.device();
  if (got.device_type != expected.device_type || got.device_id != expected.device_id)
    TVM_FFI_THROW(ValueError) << name << ": expected DLPack device " << expected.device_type << ":"
                              << expected.device_id << " as x, got " << got.device_type << ":" << got.device_id;
  if (!tensor.IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": expected a contiguous tensor, got strides";
}

void check_matches_x(const char* name, const TensorView& tensor, const TensorView& x,
                     std::initializer_list<int64_t> shape) {
  check_tensor(name, tensor, x, shape, x.dtype());
}

}  // namespace
