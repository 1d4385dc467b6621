// The kernels that are known, and their calls: past the dispatcher, by tvm-ffi's C interface where they are its
// functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace {

using at::Tensor;

struct Key {
  int64_t rows;
  int64_t hidden;
  int32_t convention;
  int32_t device;
  at::ScalarType dtype;
  at::ScalarType weight_dtype;

  bool operator==(const Key& other) const {
    return rows == other.rows && hidden == other.hidden && convention == other.convention && device == other.device &&
           dtype == other.dtype && weight_dtype == other.weight_dtype;
  }
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const uint64_t small = (static_cast<uint64_t>(key.convention) << 24) ^ (static_cast<uint64_t>(key.device) << 16) ^
                           (static_cast<uint64_t>(key.dtype) << 8) ^ static_cast<uint64_t>(key.weight_dtype);
    uint64_t mixed = static_cast<uint64_t>(key.rows) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ static_cast<uint64_t>(key.hidden)) * 0x9e3779b97f4a7c15u;
    return (mixed ^ small) * 0x9e3779b97f4a7c15u >> 8;
  }
};

struct Kernel {
  PyObject* entry = {};  // owned
  void* native = {};     // the function of tvm-ffi that the entry is; null for a kernel in Python
};

std::unordered_map<Key, Kernel, KeyHash> kernels;
PyObject* current_stream = nullptr;  // of a GPU's index; None without CUDA

// A reference that goes with its scope.
struct Owned {
  PyObject* object;
  explicit Owned(PyObject* owned) : object(owned) {}
  Owned(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
};

[[noreturn]] void throw_persistent() {
  python_error error;
  error.persist();  // beyond Python's lock
  throw error;
}

DLDataType dlpack_dtype(at::ScalarType dtype) {
  const auto code = static_cast<uint8_t>(dtype == at::kBFloat16 ? kDLBfloat : kDLFloat);
  return {code, static_cast<uint8_t>(8 * c10::elementSize(dtype)), 1};
}

DLTensor view(const Tensor& tensor, const void* data, int dimensions, const int64_t* sizes, const int64_t* strides) {
  DLTensor made{};
  made.data = const_cast<void*>(data);
  made.device = {tensor.is_cuda() ? kDLCUDA : kDLCPU, tensor.is_cuda() ? tensor.get_device() : 0};
  made.ndim = dimensions;
  made.dtype = dlpack_dtype(tensor.scalar_type());
  made.shape = const_cast<int64_t*>(sizes);
  made.strides = const_cast<int64_t*>(strides);
  return made;
}

DLTensor view(const Tensor& tensor) {
  return view(tensor, tensor.const_data_ptr(), static_cast<int>(tensor.dim()), tensor.sizes().data(),
              tensor.strides().data());
}

// Tells tvm-ffi the stream on which torch launches, as long as it is in scope.
class StreamScope {
 public:
  explicit StreamScope(const Tensor& x) : device_(x.is_cuda() ? x.get_device() : -1) {
    if (device_ < 0) return;
    const Owned index(PyLong_FromLong(device_));
    const Owned stream(PyObject_CallOneArg(current_stream, index.object));
    if (stream.object == nullptr) throw python_error();
    TVMFFIEnvSetStream(kDLCUDA, device_, PyLong_AsVoidPtr(stream.object), &before_);
  }
  StreamScope(const StreamScope&) = delete;
  ~StreamScope() {
    if (device_ >= 0) TVMFFIEnvSetStream(kDLCUDA, device_, before_, nullptr);
  }

 private:
  int device_;
  TVMFFIStreamHandle before_ = nullptr;
};

bool run_native(void* function, const Tensor& x, const Tensor& weight, const Tensor* bias, double eps,
                const Tensor& out) {
  const int64_t hidden = x.size(-1);
  const std::array<int64_t, 2> sizes{x.numel() / hidden, hidden}, strides{hidden, 1};
  std::array<DLTensor, 4> tensors{view(x, x.const_data_ptr(), 2, sizes.data(), strides.data()), view(weight)};
  int count = 2;
  if (bias != nullptr) tensors[count++] = view(*bias);
  std::array<TVMFFIAny, 5> arguments{};
  for (int i = 0; i < count; ++i) {
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &tensors[i];
  }
  arguments[count].type_index = kTVMFFIFloat;
  arguments[count].v_float64 = eps;
  tensors[count] = view(out, out.mutable_data_ptr(), 2, sizes.data(), strides.data());
  arguments[count + 1].type_index = kTVMFFIDLTensorPtr;
  arguments[count + 1].v_ptr = &tensors[count];
  TVMFFIAny nothing{};
  const StreamScope scope(x);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = TVMFFIFunctionCall(function, arguments.data(), count + 2, &nothing);
  Py_END_ALLOW_THREADS;
  if (status == 0) return true;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error != nullptr) TVMFFIObjectDecRef(error);
  PyErr_Clear();
  return false;
}

bool run_python(PyObject* entry, const Tensor& x, const Tensor& weight, const Tensor* bias, double eps,
                const Tensor& out) {
  const int64_t hidden = x.size(-1);
  const bool is_flat = x.dim() == 2;
  const Owned rows(THPVariable_Wrap(is_flat ? x : x.view({-1, hidden})));
  const Owned out_rows(THPVariable_Wrap(is_flat ? out : out.view({-1, hidden})));
  const Owned weight_given(THPVariable_Wrap(weight)), bias_given(bias != nullptr ? THPVariable_Wrap(*bias) : nullptr);
  const Owned eps_given(PyFloat_FromDouble(eps));
  std::array<PyObject*, 5> arguments{rows.object, weight_given.object};
  size_t count = 2;
  if (bias != nullptr) arguments[count++] = bias_given.object;
  arguments[count++] = eps_given.object;
  arguments[count++] = out_rows.object;
  const Owned nothing(PyObject_Vectorcall(entry, arguments.data(), count, nullptr));
  if (nothing.object != nullptr) return true;
  for (PyObject* refusal : {PyExc_ValueError, PyExc_TypeError, PyExc_RuntimeError})
    if (PyErr_ExceptionMatches(refusal)) {
      PyErr_Clear();
      return false;
    }
  throw_persistent();
}

// The norm by its kernel, without a gradient; undefined if none is known or if it refuses.
Tensor run_known(int convention, const Tensor& x, const Tensor& weight, const Tensor* bias, double eps) {
  if (x.dim() == 0 || !x.is_contiguous()) return {};
  const int64_t hidden = x.size(-1);
  const auto found = kernels.find(Key{x.numel() / std::max<int64_t>(hidden, 1), hidden, convention,
                                      x.is_cuda() ? x.get_device() : -1, x.scalar_type(), weight.scalar_type()});
  if (found == kernels.end()) return {};
  const Kernel kernel = found->second;  // another thread may forget it
  Py_INCREF(kernel.entry);
  const Owned entry(kernel.entry);
  const at::AutoGradMode off(false);
  Tensor out = at::empty(x.sizes(), x.options());
  const bool is_done = kernel.native != nullptr ? run_native(kernel.native, x, weight, bias, eps, out)
                                                : run_python(kernel.entry, x, weight, bias, eps, out);
  return is_done ? out : Tensor();
}

}  // namespace
