// The operators `norm`, `add_norm` and `norm_backward` on CPUs and GPUs, and their autograd: Python's costs a call 10
// us. They take the place of what `functional/custom_ops.py` registers for all devices, ask Python for kernels that
// they do not know, and for the formula where there is none.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <initializer_list>

#include "known_norms.h"

namespace {

using c10::string_view;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of Python: finds the kernel of a call and has it remembered; the formulas of the norms, and of their gradients.
PyObject *remember_kernel = nullptr, *compute_norm = nullptr, *compute_gradients = nullptr;
std::string refusal;  // of a gradient of the gradient

using NormSchema = Tensor(const Tensor&, const MaybeTensor&, const MaybeTensor&, double, string_view);
using AddNormSchema = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const MaybeTensor&, const MaybeTensor&,
                                                 double, string_view);
using GradientSchema = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const MaybeTensor&, const Tensor&,
                                                          const MaybeTensor&, bool, double, string_view);

template <typename Schema>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Schema>();
}

const Tensor* pointer(const MaybeTensor& tensor) { return tensor.has_value() ? &*tensor : nullptr; }
MaybeTensor maybe(const Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }

PyObject* wrap(const MaybeTensor& tensor) {
  if (tensor.has_value()) return THPVariable_Wrap(*tensor);
  Py_RETURN_NONE;
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

// What a function of Python returns; it takes over the arguments.
PyObject* ask(PyObject* function, std::initializer_list<PyObject*> arguments) {
  PyObject* found = PyObject_Vectorcall(function, arguments.begin(), arguments.size(), nullptr);
  for (PyObject* each : arguments) Py_DECREF(each);
  if (found == nullptr) throw_persistent();
  return found;
}

PyObject* text(string_view form) { return PyUnicode_FromStringAndSize(form.data(), form.size()); }
const Tensor& item(const Owned& tuple, Py_ssize_t place) {
  return THPVariable_Unpack(PyTuple_GET_ITEM(tuple.object, place));
}

// A tensor as kernels take it.
Tensor lay_out(const Tensor& tensor) { return tensor.contiguous().resolve_neg(); }
MaybeTensor lay_out(const MaybeTensor& tensor) { return tensor.has_value() ? lay_out(*tensor) : MaybeTensor(); }

// Has Python find and remember a kernel for calls like this one, other than one that is known and so has refused it.
bool finds_kernel(string_view form, uint8_t extra, const Tensor& x, const MaybeTensor& weight,
                  const MaybeTensor& bias) {
  const bool has_refused = x.dim() != 0 && find_kernel(find_form(form), x, pointer(weight), extra).entry != nullptr;
  const Owned found(
      ask(remember_kernel, {text(form), wrap(x), wrap(weight), wrap(bias), PyBool_FromLong(extra & RESIDUAL),
                            PyBool_FromLong(extra & IS_GRADIENT), PyBool_FromLong(has_refused)}));
  return found.object == Py_True;
}

// The norm by a kernel, or else by the formula.
std::tuple<Tensor, Tensor> compute(const Tensor& x_given, const MaybeTensor& residual_given,
                                   const MaybeTensor& weight_given, const MaybeTensor& bias_given, double eps,
                                   string_view form) {
  const Tensor x = lay_out(x_given);
  const MaybeTensor residual = lay_out(residual_given), weight = lay_out(weight_given), bias = lay_out(bias_given);
  const uint8_t extra = (bias.has_value() ? BIAS : NONE) | (residual.has_value() ? RESIDUAL : NONE);
  const pybind11::gil_scoped_acquire lock;
  do {
    const NormOutputs made = run_known(find_form(form), {x, pointer(residual), pointer(weight), pointer(bias), eps});
    if (made.out.defined()) return {made.out, made.new_residual};
  } while (finds_kernel(form, extra, x, weight, bias));
  const Owned found(
      ask(compute_norm, {text(form), wrap(x), wrap(residual), wrap(weight), wrap(bias), PyFloat_FromDouble(eps)}));
  if (!residual.has_value()) return {THPVariable_Unpack(found.object), Tensor()};
  return {item(found, 0), item(found, 1)};
}

Tensor norm(const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias, double eps, string_view form) {
  return std::get<0>(compute(x, std::nullopt, weight, bias, eps, form));
}

std::tuple<Tensor, Tensor> add_norm(const Tensor& x, const Tensor& residual, const MaybeTensor& weight,
                                    const MaybeTensor& bias, double eps, string_view form) {
  return compute(x, residual, weight, bias, eps, form);
}

// The gradients by a kernel, or else by the formula.
std::tuple<Tensor, Tensor, Tensor> differentiate(const Tensor& dy, const MaybeTensor& dnew_residual, const Tensor& x,
                                                 const MaybeTensor& weight, bool has_bias, double eps, string_view form,
                                                 const Tensor& mean, const Tensor& rstd) {
  const uint8_t extra = IS_GRADIENT | (dnew_residual.has_value() ? RESIDUAL : NONE);
  const pybind11::gil_scoped_acquire lock;
  do {
    const Gradients made =
        run_known_gradient(find_form(form), dy, pointer(dnew_residual), x, pointer(weight), has_bias, eps, mean, rstd);
    if (made.x.defined()) return {made.x, made.weight, made.bias};
  } while (finds_kernel(form, extra, x, weight, std::nullopt));
  const Owned found(ask(compute_gradients, {wrap(dy), wrap(dnew_residual), wrap(x), wrap(weight),
                                            PyBool_FromLong(has_bias), PyFloat_FromDouble(eps), text(form)}));
  return {item(found, 0), item(found, 1), item(found, 2)};
}

std::tuple<Tensor, Tensor, Tensor> norm_backward(const Tensor& dy, const MaybeTensor& dnew_residual, const Tensor& x,
                                                 const MaybeTensor& weight, bool has_bias, double eps,
                                                 string_view form) {
  return differentiate(dy, dnew_residual, x, weight, has_bias, eps, form, {}, {});
}

struct DoneNorm {
  NormOutputs outputs;
  double eps;
  string_view form;
};

bool is_asked(std::initializer_list<const Tensor*> tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(),
                                                   [](auto each) { return each != nullptr && each->requires_grad(); });
}

// The node of a norm that is computed. Its backward pass is an operator where compilers and modes must see it.
struct NormNode : torch::autograd::Function<NormNode> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const MaybeTensor& /*residual*/,
                               const MaybeTensor& weight, const MaybeTensor& bias, const DoneNorm& done) {
    const auto& [out, new_residual, mean, rstd] = done.outputs;
    context->set_materialize_grads(false);
    context->save_for_backward({new_residual.defined() ? new_residual : x, weight.value_or(Tensor()), mean, rstd});
    context->saved_data["eps"] = done.eps;
    context->saved_data["form"] = std::string(done.form);
    context->saved_data["bias_dtype"] = bias.has_value() ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    return new_residual.defined() ? variable_list{out, new_residual} : variable_list{out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const bool is_added = gradients.size() == 2;
    const Tensor dy = gradients[0].defined() ? gradients[0] : at::zeros_like(x);
    const MaybeTensor above = is_added ? maybe(gradients[1]) : std::nullopt;
    const int64_t bias_dtype = context->saved_data["bias_dtype"].toInt();
    const auto [dx, dweight, dbias] =
        run(dy, above, x, maybe(weight), bias_dtype >= 0, context->saved_data["eps"].toDouble(),
            context->saved_data["form"].toStringRef(), saved[2], saved[3]);
    return {dx, is_added ? dx : Tensor(), weight.defined() ? dweight : Tensor(),
            bias_dtype < 0 ? Tensor() : dbias.to(static_cast<at::ScalarType>(bias_dtype)), Tensor()};
  }

 private:
  static std::tuple<Tensor, Tensor, Tensor> run(const Tensor& dy, const MaybeTensor& above, const Tensor& x,
                                                const MaybeTensor& weight, bool has_bias, double eps, string_view form,
                                                const Tensor& mean, const Tensor& rstd) {
    static const auto gradient = find_operator<GradientSchema>("fib_rmsnorm::norm_backward");
    const Tensor* const given[] = {&dy, pointer(above), &x, pointer(weight)};
    c10::DispatchKeySet keys;
    for (const Tensor* each : given)
      if (each != nullptr) keys = keys | each->key_set();
    if (!is_unobserved(keys) || is_asked({&dy, pointer(above), &x, pointer(weight)}))
      return gradient.call(dy, above, x, weight, has_bias, eps, form);
    const at::AutoDispatchBelowAutograd below;
    return differentiate(dy, above, x, weight, has_bias, eps, form, mean, rstd);
  }
};

// The node of a gradient, which has none.
struct GradientNode : torch::autograd::Function<GradientNode> {
  static variable_list forward(AutogradContext*, const Tensor& /*dy*/, const MaybeTensor& /*dnew_residual*/,
                               const Tensor& /*x*/, const MaybeTensor& /*weight*/, const Gradients& done) {
    return {done.x, done.weight, done.bias};
  }

  static variable_list backward(AutogradContext*, const variable_list&) { TORCH_CHECK(false, refusal); }
};

Tensor norm_for_autograd(const Tensor& x, const MaybeTensor& weight, const MaybeTensor& bias, double eps,
                         string_view form) {
  static const auto norm = find_operator<NormSchema>("fib_rmsnorm::norm");
  const auto run = [&] {
    const at::AutoDispatchBelowAutograd below;
    return norm.call(x, weight, bias, eps, form);
  };
  if (!is_asked({&x, pointer(weight), pointer(bias)})) return run();
  return NormNode::apply(x, MaybeTensor(), weight, bias, DoneNorm{{run(), {}}, eps, form})[0];
}

std::tuple<Tensor, Tensor> add_norm_for_autograd(const Tensor& x, const Tensor& residual, const MaybeTensor& weight,
                                                 const MaybeTensor& bias, double eps, string_view form) {
  static const auto add_norm = find_operator<AddNormSchema>("fib_rmsnorm::add_norm");
  const auto run = [&] {
    const at::AutoDispatchBelowAutograd below;
    return add_norm.call(x, residual, weight, bias, eps, form);
  };
  const auto [out, new_residual] = run();
  if (!is_asked({&x, &residual, pointer(weight), pointer(bias)})) return {out, new_residual};
  const auto made = NormNode::apply(x, MaybeTensor(residual), weight, bias, DoneNorm{{out, new_residual}, eps, form});
  return {made[0], made[1]};
}

std::tuple<Tensor, Tensor, Tensor> norm_backward_for_autograd(const Tensor& dy, const MaybeTensor& dnew_residual,
                                                              const Tensor& x, const MaybeTensor& weight, bool has_bias,
                                                              double eps, string_view form) {
  static const auto gradient = find_operator<GradientSchema>("fib_rmsnorm::norm_backward");
  const auto run = [&] {
    const at::AutoDispatchBelowAutograd below;
    return gradient.call(dy, dnew_residual, x, weight, has_bias, eps, form);
  };
  const auto [dx, dweight, dbias] = run();
  if (!is_asked({&dy, pointer(dnew_residual), &x, pointer(weight)})) return {dx, dweight, dbias};
  const auto made = GradientNode::apply(dy, dnew_residual, x, weight, Gradients{dx, dweight, dbias});
  return {made[0], made[1], made[2]};
}

void register_kernels(torch::Library& library) {
  library.impl("norm", norm);
  library.impl("add_norm", add_norm);
  library.impl("norm_backward", norm_backward);
}

void register_autograd(torch::Library& library) {
  library.impl("norm", norm_for_autograd);
  library.impl("add_norm", add_norm_for_autograd);
  library.impl("norm_backward", norm_backward_for_autograd);
}

TORCH_LIBRARY_IMPL(fib_rmsnorm, CPU, library) { register_kernels(library); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, CUDA, library) { register_kernels(library); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, AutogradCPU, library) { register_autograd(library); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, AutogradCUDA, library) { register_autograd(library); }

}  // namespace
