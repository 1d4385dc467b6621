// A norm whose kernel is known, without Python's time: the look-up, the outputs, the call and the node of autograd.
//
// A module of Python. `functional/custom_ops.py` connects it and remembers kernels in it; `run` is the norm, or None
// for a call that it leaves to the operators: its kernel is not known or refuses, or more than autograd must see the
// call. Python's own lock guards the table.
#include <torch/csrc/Dtype.h>

#include "norm_operators.h"

namespace {

int find_form(PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : "";
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? -1 : find_form(c10::string_view(text));
}

PyObject* leave_to_others() { Py_RETURN_NONE; }

const Tensor* given(PyObject* tensor) { return tensor == Py_None ? nullptr : &THPVariable_Unpack(tensor); }

PyObject* wrap_outputs(const NormOutputs& made) {
  if (!made.new_residual.defined()) return THPVariable_Wrap(made.out);
  const Owned out(THPVariable_Wrap(made.out)), new_residual(THPVariable_Wrap(made.new_residual));
  return PyTuple_Pack(2, out.object, new_residual.object);
}

// (form, x, residual, weight, bias, eps) -> out, or out and the new residual
PyObject* run(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(count == 6, "expected 6 arguments");
  if (Py_TYPE(arguments[1]) != reinterpret_cast<PyTypeObject*>(THPVariableClass)) return leave_to_others();
  std::array<const Tensor*, 4> tensors{};
  c10::DispatchKeySet keys;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (arguments[i + 1] == Py_None) continue;
    if (!THPVariable_CheckExact(arguments[i + 1])) return leave_to_others();
    tensors[i] = given(arguments[i + 1]);
    keys = keys | tensors[i]->key_set();
    if (tensors[i]->_fw_grad(0).defined()) return leave_to_others();
  }
  if (!is_unobserved(keys)) return leave_to_others();
  const auto [x, residual, weight, bias] = tensors;
  const double eps = PyFloat_AsDouble(arguments[5]);
  if (eps == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return leave_to_others();
  }
  const int form = find_form(arguments[0]);
  const bool wants_gradients = is_asked({x, residual, weight, bias});
  NormOutputs made = run_known(form, {*x, residual, weight, bias, eps}, wants_gradients);
  if (!made.out.defined()) return leave_to_others();
  if (wants_gradients && !made.out.requires_grad()) {
    const auto kept =
        NormNode::apply(*x, maybe(residual), maybe(weight), maybe(bias), DoneNorm{made, eps, FORMS[form]});
    made = {kept[0], residual != nullptr ? kept[1] : Tensor()};
  }
  return wrap_outputs(made);
  END_HANDLE_TH_ERRORS
}

at::ScalarType scalar_type(PyObject* dtype) {
  return dtype == Py_None ? at::ScalarType::Undefined : reinterpret_cast<THPDtype*>(dtype)->scalar_type;
}

PyObject* forget(PyObject*, PyObject*) {
  decltype(kernels) before;
  before.swap(kernels);
  for (const auto& each : before) Py_DECREF(each.second.entry);
  Py_RETURN_NONE;
}

// (form, rows, hidden, dtype, weight's dtype, device, has a bias, has a residual, is a gradient, entry, native, adds
// before, torch's passes) -> None
PyObject* remember(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  PyObject *name, *dtype, *weight_dtype, *entry;
  long long rows, hidden;
  int device;
  int has_bias, has_residual, is_gradient;
  unsigned long long native;
  int adds_before, torchs_passes;
  if (!PyArg_ParseTuple(arguments, "OLLOOipppOKpi", &name, &rows, &hidden, &dtype, &weight_dtype, &device, &has_bias,
                        &has_residual, &is_gradient, &entry, &native, &adds_before, &torchs_passes))
    return nullptr;
  const uint8_t extra =
      (has_bias ? BIAS : NONE) | (has_residual ? RESIDUAL : NONE) | (is_gradient ? IS_GRADIENT : NONE);
  const Key key{rows, hidden, find_form(name), device, scalar_type(dtype), scalar_type(weight_dtype), extra};
  if (kernels.size() >= MOST_KERNELS) Py_DECREF(forget(nullptr, nullptr));
  Py_INCREF(entry);
  Kernel& kept = kernels[key];
  const Owned before(kept.entry);
  kept = {entry, reinterpret_cast<void*>(native), adds_before != 0, torchs_passes};
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// (the refusal of a gradient's gradient, remember_kernel, formulas of norms, of gradients, current stream)
PyObject* connect(PyObject*, PyObject* arguments) {
  const char* told;
  if (!PyArg_ParseTuple(arguments, "sOOOO", &told, &remember_kernel, &compute_norm, &compute_gradients,
                        &current_stream))
    return nullptr;
  for (PyObject* each : {remember_kernel, compute_norm, compute_gradients, current_stream}) Py_INCREF(each);
  refusal = told;
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
