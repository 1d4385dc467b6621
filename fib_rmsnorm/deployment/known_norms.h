// The norms and their gradients by kernels that are known. The caller has Python's lock, which is free while torch or a
// kernel computes.
#pragma once

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <optional>
#include <tuple>

#include "kernel_arguments.h"

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9
#include <ATen/ops/_fused_rms_norm.h>
#define HAS_FUSED_RMS_NORM
#endif

namespace {

// Elements: 4096 rows of 4096, with which a step takes an H200 as long by one kernel as by five, and the host less.
constexpr int64_t MOST_BY_NORM = 1 << 24;
// Elements of which a CPU computes the moments at once.
constexpr int64_t MOST_MOMENTS = 1 << 20;

using MaybeTensor = std::optional<Tensor>;
MaybeTensor maybe(const Tensor* tensor) { return tensor != nullptr ? MaybeTensor(*tensor) : std::nullopt; }

struct NormInputs {
  const Tensor& x;
  const Tensor* residual;
  const Tensor* weight;
  const Tensor* bias;
  double eps;
};

struct NormOutputs {
  Tensor out;  // undefined: no kernel is known, or it refused
  Tensor new_residual;
  Tensor mean, rstd;  // of each row, in float32, where torch's own norm gave them
};

struct Gradients {
  Tensor x;  // undefined: no kernel is known, or it refused
  Tensor weight, bias;
};

bool is_like(const Tensor& tensor, const Tensor& x) {
  return tensor.sizes() == x.sizes() && tensor.scalar_type() == x.scalar_type() && tensor.device() == x.device() &&
         tensor.is_contiguous();
}

bool is_parameter(const Tensor& tensor, const Tensor& x) {
  return tensor.dim() == 1 && tensor.size(0) == x.size(-1) && tensor.device() == x.device() && tensor.is_contiguous();
}

// The norm by torch, with its own node of autograd; or by its kernel alone, which gives the rows' statistics too.
NormOutputs run_torchs(int form, const NormInputs& given, bool has_node) {
  const pybind11::gil_scoped_release unlocked;
  const auto& [x, residual, weight_given, bias_given, eps] = given;
  const auto hidden = x.sizes().slice(x.dim() - 1);
  const auto weight = maybe(weight_given), bias = maybe(bias_given);
  if (has_node)
    return {form == LAYER_NORM ? at::layer_norm(x, hidden, weight, bias, eps) : at::rms_norm(x, hidden, weight, eps)};
  const at::AutoDispatchBelowAutograd below;
  if (form != LAYER_NORM) {
#ifdef HAS_FUSED_RMS_NORM
    const auto [out, rstd] = at::_fused_rms_norm(x, hidden, weight, eps);
    return {out, {}, {}, rstd.view(-1)};
#else
    return {at::rms_norm(x, hidden, weight, eps)};
#endif
  }
  const auto [out, mean, rstd] = at::native_layer_norm(x, hidden, weight, bias, eps);
  return {out, {}, mean.view(-1), rstd.view(-1)};
}

NormOutputs run_known(int form, const NormInputs& given, bool wants_gradients = false) {
  const auto& [x, residual, weight, bias, eps] = given;
  if (x.dim() == 0 || !x.is_contiguous()) return {};
  const Kernel kernel =
      find_kernel(form, x, weight, (bias != nullptr ? BIAS : NONE) | (residual != nullptr ? RESIDUAL : NONE));
  if (kernel.entry == nullptr || (weight != nullptr && !is_parameter(*weight, x)) ||
      (bias != nullptr && (!is_parameter(*bias, x) || bias->scalar_type() != weight->scalar_type())) ||
      (residual != nullptr && !is_like(*residual, x)))
    return {};
  if (wants_gradients && kernel.torchs_passes > 0) return run_torchs(form, given, kernel.torchs_passes == 2);
  const Owned entry(Py_NewRef(kernel.entry));  // another thread may forget it
  const at::AutoGradMode off(false);
  NormOutputs made{at::empty(x.sizes(), x.options())};
  if (kernel.adds_before) {
    const pybind11::gil_scoped_release unlocked;
    made.new_residual = at::add(x, *residual);
  }
  Arguments arguments(x);
  arguments.add_rows(kernel.adds_before ? made.new_residual : x);
  if (residual != nullptr && !kernel.adds_before) arguments.add_rows(*residual);
  if (weight != nullptr) arguments.add(*weight);
  if (bias != nullptr) arguments.add(*bias);
  arguments.add(eps);
  arguments.add_rows(made.out);
  if (residual != nullptr && !kernel.adds_before) {
    made.new_residual = at::empty(x.sizes(), x.options());
    arguments.add_rows(made.new_residual);
  }
  return arguments.call(kernel) ? made : NormOutputs{};
}

// No mean, and the reciprocal of each row's root mean square, without a copy of x in float32.
//
// On a GPU, of few elements, by torch's own RMSNorm (since torch 2.9): one kernel rather than five, 5 against 16 us at
// 512 rows of 4096 on an H200. Of many, what it writes besides takes longer: 80 against 51 us at 16384 rows.
std::tuple<Tensor, Tensor> find_rstd(const Tensor& rows, double eps) {
  const pybind11::gil_scoped_release unlocked;
#ifdef HAS_FUSED_RMS_NORM
  if (rows.is_cuda() && rows.numel() <= MOST_BY_NORM)
    return {Tensor(), std::get<1>(at::_fused_rms_norm(rows, rows.sizes().slice(1), std::nullopt, eps)).view(-1)};
#endif
  Tensor norm = at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}, false, at::kFloat);
  return {Tensor(), norm.square_().div_(static_cast<double>(rows.size(1))).add_(eps).rsqrt_()};
}

// The mean and the reciprocal of the standard deviation of each row, in float32.
//
// By torch's own LayerNorm, which reads each row once: `var_mean` takes ten times as long on a CPU, and on a GPU needs
// a copy of the rows in float32. On a CPU the statistics have the weight's dtype. Their rows come in parts because the
// norm is written too: to memory that the next part takes again, rather than to as much as x has, which took 25 ms
// instead of 7.
std::tuple<Tensor, Tensor> find_moments(const Tensor& rows, double eps) {
  const auto hidden = rows.sizes().slice(1);
  if (rows.is_cuda()) {
    const auto [nothing, mean, rstd] = at::native_layer_norm(rows, hidden, {}, {}, eps);
    return {mean.view(-1), rstd.view(-1)};
  }
  static Tensor ones;
  if (!ones.defined() || ones.size(0) != hidden[0]) ones = at::ones(hidden, at::kFloat);
  const Tensor weight = ones;  // another thread may change it
  const pybind11::gil_scoped_release unlocked;
  const int64_t count = rows.size(0), at_once = std::max<int64_t>(MOST_MOMENTS / hidden[0], 1);
  Tensor mean, rstd;
  for (int64_t start = 0; start < count; start += at_once) {
    const bool is_all = count <= at_once;
    const auto [nothing, means, rstds] = at::native_layer_norm(
        is_all ? rows : rows.narrow(0, start, std::min(at_once, count - start)), hidden, weight, weight, eps);
    if (is_all) return {means.view(-1), rstds.view(-1)};
    if (start == 0) mean = at::empty({count}, means.options()), rstd = at::empty({count}, means.options());
    mean.narrow(0, start, means.numel()).copy_(means.view(-1));
    rstd.narrow(0, start, means.numel()).copy_(rstds.view(-1));
  }
  return {mean, rstd};
}

// The gradients of x, the weight and the bias; x is the new residual if a residual was added. The registry's kernels of
// the forward pass do not return a row's statistics: those that are not given are computed here from x.
Gradients run_known_gradient(int form, const Tensor& dy_given, const Tensor* dnew_residual_given, const Tensor& x_given,
                             const Tensor* weight_given, bool has_bias, double eps, Tensor mean = {},
                             Tensor rstd = {}) {
  if (x_given.dim() == 0 || weight_given == nullptr) return {};
  const Kernel kernel =
      find_kernel(form, x_given, weight_given, IS_GRADIENT | (dnew_residual_given != nullptr ? RESIDUAL : NONE));
  if (kernel.entry == nullptr) return {};
  const Owned entry(Py_NewRef(kernel.entry));
  const at::AutoGradMode off(false);
  const Tensor x = x_given.contiguous(), dy = dy_given.contiguous(), weight = weight_given->contiguous();
  const Tensor above = dnew_residual_given != nullptr ? dnew_residual_given->contiguous() : Tensor();
  if (!is_like(dy, x) || !is_parameter(weight, x) || (above.defined() && !is_like(above, x))) return {};
  const Tensor rows = x.view({-1, x.size(-1)});
  Gradients made{at::empty(x.sizes(), x.options()), at::empty(weight.sizes(), weight.options()), {}};
  if (!rstd.defined()) std::tie(mean, rstd) = form == LAYER_NORM ? find_moments(rows, eps) : find_rstd(rows, eps);
  Arguments arguments(x);
  arguments.add_rows(dy);
  if (above.defined()) arguments.add_rows(above);
  arguments.add_rows(x);
  arguments.add(weight);
  if (mean.defined()) arguments.add(mean);
  arguments.add(rstd);
  arguments.add_rows(made.x);
  arguments.add(made.weight);
  if (form == LAYER_NORM) {
    made.bias = at::empty(weight.sizes(), weight.options());
    arguments.add(made.bias);
  }
  if (!arguments.call(kernel)) return {};
  if (!has_bias) {
    made.bias = at::empty({0}, x.options());
  } else if (form != LAYER_NORM) {
    const pybind11::gil_scoped_release unlocked;
    made.bias = dy.view(rows.sizes()).sum(at::IntArrayRef{0}, false, at::kFloat).to(weight.scalar_type());
  }
  return made;
}

}  // namespace
