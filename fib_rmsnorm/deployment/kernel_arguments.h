// A kernel's arguments, and its call: by tvm-ffi's C interface where it is its function, else by Python's.
#pragma once

#include <torch/csrc/autograd/python_variable.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <array>

#include "known_kernels.h"

namespace {

PyObject* current_stream = nullptr;  // of a GPU's index; None without CUDA

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

// In a kernel's order: rows like x's, which it gets with two dimensions, other tensors and numbers. The caller keeps
// the tensors, and Python's lock.
class Arguments {
 public:
  explicit Arguments(const Tensor& x) : x_(x), sizes_{x.numel() / x.size(-1), x.size(-1)}, strides_{x.size(-1), 1} {}

  void add_rows(const Tensor& tensor) { given_[count_++] = {&tensor, true, 0}; }
  void add(const Tensor& tensor) { given_[count_++] = {&tensor, false, 0}; }
  void add(double number) { given_[count_++] = {nullptr, false, number}; }

  // Whether the kernel, which the caller keeps, took them.
  bool call(const Kernel& kernel) const {
    return kernel.native != nullptr ? call_native(kernel.native) : call_python(kernel.entry);
  }

 private:
  struct Argument {
    const Tensor* tensor;
    bool is_rows;
    double number;
  };

  static constexpr size_t MOST = 8;

  DLTensor view(const Argument& given) const {
    const Tensor& tensor = *given.tensor;
    DLTensor made{};
    made.data = const_cast<void*>(tensor.const_data_ptr());
    made.device = {tensor.is_cuda() ? kDLCUDA : kDLCPU, tensor.is_cuda() ? tensor.get_device() : 0};
    made.ndim = given.is_rows ? 2 : static_cast<int>(tensor.dim());
    const auto code = static_cast<uint8_t>(tensor.scalar_type() == at::kBFloat16 ? kDLBfloat : kDLFloat);
    made.dtype = {code, static_cast<uint8_t>(8 * tensor.element_size()), 1};
    made.shape = const_cast<int64_t*>(given.is_rows ? sizes_.data() : tensor.sizes().data());
    made.strides = const_cast<int64_t*>(given.is_rows ? strides_.data() : tensor.strides().data());
    return made;
  }

  bool call_native(void* function) const {
    std::array<DLTensor, MOST> tensors;
    std::array<TVMFFIAny, MOST> arguments{};
    for (size_t i = 0; i < count_; ++i) {
      if (given_[i].tensor == nullptr) {
        arguments[i].type_index = kTVMFFIFloat;
        arguments[i].v_float64 = given_[i].number;
        continue;
      }
      tensors[i] = view(given_[i]);
      arguments[i].type_index = kTVMFFIDLTensorPtr;
      arguments[i].v_ptr = &tensors[i];
    }
    TVMFFIAny nothing{};
    const StreamScope scope(x_);
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = TVMFFIFunctionCall(function, arguments.data(), static_cast<int>(count_), &nothing);
    Py_END_ALLOW_THREADS;
    if (status == 0) return true;
    TVMFFIObjectHandle error = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    if (error != nullptr) TVMFFIObjectDecRef(error);
    PyErr_Clear();
    return false;
  }

  bool call_python(PyObject* entry) const {
    std::vector<PyObject*> arguments;
    for (size_t i = 0; i < count_; ++i) {
      const auto& [tensor, is_rows, number] = given_[i];
      arguments.push_back(tensor == nullptr               ? PyFloat_FromDouble(number)
                          : is_rows && tensor->dim() != 2 ? THPVariable_Wrap(tensor->view({-1, sizes_[1]}))
                                                          : THPVariable_Wrap(*tensor));
    }
    const Owned nothing(PyObject_Vectorcall(entry, arguments.data(), count_, nullptr));
    for (PyObject* each : arguments) Py_DECREF(each);
    if (nothing.object != nullptr) return true;
    for (PyObject* refusal : {PyExc_ValueError, PyExc_TypeError, PyExc_RuntimeError})
      if (PyErr_ExceptionMatches(refusal)) {
        PyErr_Clear();
        return false;
      }
    throw_persistent();
  }

  const Tensor& x_;
  std::array<int64_t, 2> sizes_, strides_;
  std::array<Argument, MOST> given_;
  size_t count_ = 0;
};

}  // namespace
