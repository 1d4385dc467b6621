// A norm whose kernel is known, without Python's time: the look-up, the output, the call and the node of autograd.
//
// A module of Python. `functional/quick_calls.py` connects it and remembers kernels in it; `run` is the norm, or None
// for a call that it leaves to others: its kernel is not known or refuses, or more than autograd must see the call.
// Python's own lock guards the table.
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>

#include "known_kernels.h"
#include "norm_operator.h"

namespace {

PyObject* conventions = nullptr;    // a tuple of strings, interned
PyObject* differentiate = nullptr;  // (convention, eps, has_bias, dy, x, weight) -> (dx, dweight, dbias or None)

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
    if (found.object == nullptr) throw_persistent();
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
  if (!is_unobserved(keys)) return leave_to_others();
  if (has_tangent(x) || has_tangent(weight) || (has_bias && has_tangent(*bias))) return leave_to_others();
  const double eps = PyFloat_AsDouble(arguments[4]);
  if (eps == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return leave_to_others();
  }
  const int convention = find_convention(arguments[0]);
  Tensor out = run_known(convention, x, weight, bias, eps);
  if (!out.defined()) return leave_to_others();
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
  PyObject* names;
  if (!PyArg_ParseTuple(arguments, "O!O!OOO", &PyTuple_Type, &conventions, &PyTuple_Type, &names, &differentiate,
                        &run_and_remember, &current_stream))
    return nullptr;
  for (PyObject* each : {conventions, differentiate, run_and_remember, current_stream}) Py_INCREF(each);
  forms.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    forms.emplace_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i)));
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
