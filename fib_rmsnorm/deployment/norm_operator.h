// The operator `fib_rmsnorm::norm` on CPUs and GPUs, and its autograd: Python's costs a call 10 us. It takes the place
// of what `functional/custom_ops.py` registers for all devices, which it asks for what it does not know.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "known_kernels.h"

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<std::string> forms;        // as the operator names the conventions
PyObject* run_and_remember = nullptr;  // (x, weight, bias, eps, form) -> out

using NormSchema = Tensor(const Tensor&, const std::optional<Tensor>&, const std::optional<Tensor>&, double,
                          c10::string_view);
using GradientSchema = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const std::optional<Tensor>&, const Tensor&,
                                                          const std::optional<Tensor>&, bool, double, c10::string_view);

Tensor call_norm(const Tensor& x, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps,
                 c10::string_view form) {
  static const auto norm = c10::Dispatcher::singleton().findSchemaOrThrow("fib_rmsnorm::norm", "").typed<NormSchema>();
  const at::AutoDispatchBelowAutograd below;
  return norm.call(x, weight, bias, eps, form);
}

// The operator on a CPU or GPU, without a gradient.
Tensor run_operator(const Tensor& x, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps,
                    c10::string_view form) {
  const pybind11::gil_scoped_acquire lock;
  const auto place = std::find(forms.begin(), forms.end(), form);
  if (weight && place != forms.end() && bias.has_value() == (*place == "layernorm")) {
    const Tensor out =
        run_known(static_cast<int>(place - forms.begin()), x, *weight, bias.has_value() ? &*bias : nullptr, eps);
    if (out.defined()) return out;
  }
  const auto wrap = [](const std::optional<Tensor>& tensor) {
    if (tensor.has_value()) return THPVariable_Wrap(*tensor);
    Py_INCREF(Py_None);
    return Py_None;
  };
  const Owned x_given(wrap(x)), weight_given(wrap(weight)), bias_given(wrap(bias));
  const Owned eps_given(PyFloat_FromDouble(eps)), form_given(PyUnicode_FromStringAndSize(form.data(), form.size()));
  const std::array<PyObject*, 5> arguments{x_given.object, weight_given.object, bias_given.object, eps_given.object,
                                           form_given.object};
  const Owned found(PyObject_Vectorcall(run_and_remember, arguments.data(), arguments.size(), nullptr));
  if (found.object == nullptr) throw_persistent();
  return THPVariable_Unpack(found.object);
}

// Its backward pass is an operator too, so that compilers see it.
struct OperatorNorm : torch::autograd::Function<OperatorNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& weight,
                        const std::optional<Tensor>& bias, double eps, c10::string_view form) {
    context->save_for_backward({x, weight.value_or(Tensor())});
    context->saved_data["eps"] = eps;
    context->saved_data["form"] = std::string(form);
    context->saved_data["bias_dtype"] = bias.has_value() ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    return call_norm(x, weight, bias, eps, form);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto gradient =
        c10::Dispatcher::singleton().findSchemaOrThrow("fib_rmsnorm::norm_backward", "").typed<GradientSchema>();
    const variable_list saved = context->get_saved_variables();
    const std::optional<Tensor> weight = saved[1].defined() ? std::make_optional(saved[1]) : std::nullopt;
    const int64_t bias_dtype = context->saved_data["bias_dtype"].toInt();
    const std::string form = context->saved_data["form"].toStringRef();
    const auto [dx, dweight, dbias] = gradient.call(gradients[0], std::nullopt, saved[0], weight, bias_dtype >= 0,
                                                    context->saved_data["eps"].toDouble(), form);
    return {dx, weight ? dweight : Tensor(),
            bias_dtype < 0 ? Tensor() : dbias.to(static_cast<at::ScalarType>(bias_dtype)), Tensor(), Tensor()};
  }
};

Tensor run_operator_for_autograd(const Tensor& x, const std::optional<Tensor>& weight,
                                 const std::optional<Tensor>& bias, double eps, c10::string_view form) {
  const bool is_asked = x.requires_grad() || (weight && weight->requires_grad()) || (bias && bias->requires_grad());
  if (is_asked && at::GradMode::is_enabled()) return OperatorNorm::apply(x, weight, bias, eps, form);
  return call_norm(x, weight, bias, eps, form);
}

TORCH_LIBRARY_IMPL(fib_rmsnorm, CPU, library) { library.impl("norm", run_operator); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, CUDA, library) { library.impl("norm", run_operator); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, AutogradCPU, library) { library.impl("norm", run_operator_for_autograd); }
TORCH_LIBRARY_IMPL(fib_rmsnorm, AutogradCUDA, library) { library.impl("norm", run_operator_for_autograd); }

}  // namespace
