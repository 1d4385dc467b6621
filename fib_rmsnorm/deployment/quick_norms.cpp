// A norm whose kernel is known, without Python's time: the look-up, the output, the call and the node of autograd.
//
// A module of Python. `functional/quick_calls.py` connects it and remembers kernels in it; `run` is the norm, or None
// for a call that it leaves to others: its kernel is not known or refuses, or more than autograd must see the call.
// Python's own lock guards the table.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <array>
#include <optional>
#include <unordered_map>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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
PyObject* conventions = nullptr;     // a tuple of strings, interned
PyObject* differentiate = nullptr;   // (convention, eps, has_bias, dy, x, weight) -> (dx, dweight, dbias or None)
PyObject* current_stream = nullptr;  // of a GPU's index; None without CUDA

// A reference that goes with its scope.
struct Owned {
  PyObject* object;
  explicit Owned(PyObject* owned) : object(owned) {}
  Owned(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
};

int find_convention(PyObject* name) {
  const Py_ssize_t count = PyTuple_GET_SIZE(conventions);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyTuple_GET_ITEM(conventions, i) == name) return static_cast<int>(i);
  if (PyUnicode_Check(name))
    for (Py_ssize_t i = 0; i < count; ++i)
      if (PyUnicode_Compare(PyTuple_GET_ITEM(conventions, i), name) == 0) return static_cast<int>(i);
  return -1;
}

// Whether nothing but autograd is to see a call of these tensors: no mode, trace, transform or autocast, and no tensor
// whose memory is other than it looks.
bool is_unobserved(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  static const uint64_t plain =
      c10::DispatchKeySet({DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA,
                           DispatchKey::ADInplaceOrView, DispatchKey::BackendSelect})
          .raw_repr();
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const auto seen = (keys | local.included_) - local.excluded_;
  return (seen.raw_repr() & ~plain) == 0 && !at::impl::torch_function_mode_enabled();
}

bool has_tangent(const Tensor& tensor) { return tensor._fw_grad(0).defined(); }

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

bool run_python(PyObject* entry, const Tensor& x, PyObject* weight, PyObject* bias, PyObject* eps, const Tensor& out) {
  const int64_t hidden = x.size(-1);
  const bool is_flat = x.dim() == 2;
  const Owned rows(THPVariable_Wrap(is_flat ? x : x.view({-1, hidden})));
  const Owned out_rows(THPVariable_Wrap(is_flat ? out : out.view({-1, hidden})));
  std::array<PyObject*, 5> arguments{rows.object, weight};
  size_t count = 2;
  if (bias != Py_None) arguments[count++] = bias;
  arguments[count++] = eps;
  arguments[count++] = out_rows.object;
  const Owned nothing(PyObject_Vectorcall(entry, arguments.data(), count, nullptr));
  if (nothing.object != nullptr) return true;
  for (PyObject* refusal : {PyExc_ValueError, PyExc_TypeError, PyExc_RuntimeError})
    if (PyErr_ExceptionMatches(refusal)) {
      PyErr_Clear();
      return false;
    }
  throw python_error();
}

struct Done {
  Tensor out;
  int convention;
  double eps;
};

struct QuickNorm : torch::autograd::Function<QuickNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const Done& done) {
    context->save_for_backward({x, weight});
    context->saved_data["convention"] = done.convention;
    context->saved_data["eps"] = done.eps;
    context->saved_data["has_bias"] = bias.has_value();
    return done.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const int64_t convention = context->saved_data["convention"].toInt();
    const bool has_bias = context->saved_data["has_bias"].toBool();
    const pybind11::gil_scoped_acquire lock;
    const Owned eps(PyFloat_FromDouble(context->saved_data["eps"].toDouble()));
    const Owned dy(THPVariable_Wrap(gradients[0])), x(THPVariable_Wrap(saved[0])), weight(THPVariable_Wrap(saved[1]));
    std::array<PyObject*, 6> arguments{PyTuple_GET_ITEM(conventions, convention),
                                       eps.object,
                                       has_bias ? Py_True : Py_False,
                                       dy.object,
                                       x.object,
                                       weight.object};
    const Owned found(PyObject_Vectorcall(differentiate, arguments.data(), arguments.size(), nullptr));
    if (found.object == nullptr) {
      python_error error;
      error.persist();
      throw error;
    }
    variable_list made(4);
    for (Py_ssize_t i = 0; i < 3; ++i) {
      PyObject* gradient = PyTuple_GET_ITEM(found.object, i);
      if (gradient != Py_None) made[i] = THPVariable_Unpack(gradient);
    }
    return made;
  }
};

PyObject* leave_to_others() { Py_RETURN_NONE; }

PyObject* run(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(count == 5, "expected 5 arguments");
  PyObject *x_given = arguments[1], *weight_given = arguments[2], *bias_given = arguments[3];
  const bool has_bias = bias_given != Py_None;
  if (Py_TYPE(x_given) != reinterpret_cast<PyTypeObject*>(THPVariableClass) || !THPVariable_CheckExact(weight_given) ||
      (has_bias && !THPVariable_CheckExact(bias_given)))
    return leave_to_others();
  const Tensor &x = THPVariable_Unpack(x_given), &weight = THPVariable_Unpack(weight_given);
  const Tensor* bias = has_bias ? &THPVariable_Unpack(bias_given) : nullptr;
  auto keys = x.key_set() | weight.key_set();
  if (has_bias) keys = keys | bias->key_set();
  if (!is_unobserved(keys) || x.dim() == 0 || !x.is_contiguous()) return leave_to_others();
  const int64_t hidden = x.size(-1);
  const int convention = find_convention(arguments[0]);
  const auto found = kernels.find(Key{x.numel() / std::max<int64_t>(hidden, 1), hidden, convention,
                                      x.is_cuda() ? x.get_device() : -1, x.scalar_type(), weight.scalar_type()});
  if (found == kernels.end()) return leave_to_others();
  if (has_tangent(x) || has_tangent(weight) || (has_bias && has_tangent(*bias))) return leave_to_others();
  const double eps = PyFloat_AsDouble(arguments[4]);
  if (eps == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return leave_to_others();
  }
  const Kernel kernel = found->second;  // another thread may forget it
  Py_INCREF(kernel.entry);
  const Owned entry(kernel.entry);
  Tensor out;
  {
    const at::AutoGradMode off(false);
    out = at::empty(x.sizes(), x.options());
    const bool is_done = kernel.native != nullptr
                             ? run_native(kernel.native, x, weight, bias, eps, out)
                             : run_python(kernel.entry, x, weight_given, bias_given, arguments[4], out);
    if (!is_done) return leave_to_others();
  }
  if (at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (has_bias && bias->requires_grad())))
    out = QuickNorm::apply(x, weight, has_bias ? std::make_optional(*bias) : std::nullopt, Done{out, convention, eps});
  return THPVariable_Wrap(out);
  END_HANDLE_TH_ERRORS
}

PyObject* remember(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  PyObject *name, *dtype, *weight_dtype, *entry;
  long long rows, hidden;
  int device;
  unsigned long long native;
  if (!PyArg_ParseTuple(arguments, "OLLOOiOK", &name, &rows, &hidden, &dtype, &weight_dtype, &device, &entry, &native))
    return nullptr;
  const Key key{rows,
                hidden,
                find_convention(name),
                device,
                reinterpret_cast<THPDtype*>(dtype)->scalar_type,
                reinterpret_cast<THPDtype*>(weight_dtype)->scalar_type};
  Py_INCREF(entry);
  Kernel& kept = kernels[key];
  const Owned before(kept.entry);
  kept = {entry, reinterpret_cast<void*>(native)};
  return PyLong_FromSize_t(kernels.size());
  END_HANDLE_TH_ERRORS
}

PyObject* forget(PyObject*, PyObject*) {
  decltype(kernels) before;
  before.swap(kernels);
  for (const auto& each : before) Py_DECREF(each.second.entry);
  Py_RETURN_NONE;
}

PyObject* connect(PyObject*, PyObject* arguments) {
  if (!PyArg_ParseTuple(arguments, "O!OO", &PyTuple_Type, &conventions, &differentiate, &current_stream))
    return nullptr;
  for (PyObject* each : {conventions, differentiate, current_stream}) Py_INCREF(each);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)), METH_FASTCALL, nullptr},
    {"remember", remember, METH_VARARGS, nullptr},
    {"forget", forget, METH_NOARGS, nullptr},
    {"connect", connect, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, C10_STRINGIZE(TORCH_EXTENSION_NAME), nullptr, -1, methods};

}  // namespace

// The name, which torch's builder defines, tells builds apart.
PyMODINIT_FUNC C10_CONCATENATE(PyInit_, TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
