// 0 Called as dropout_add_ln_fwd(x, {}, weight, {}, 0, eps, true)[0]
#include <torch/extension.h>
using at::Tensor;
using fp32_t = float;
std::vector<Tensor> dropout_add_ln_fwd(const Tensor& x0, std::optional<const Tensor>& residual_, const Tensor& gamma,
                                       std::optional<const Tensor>& beta_, const float dropout_p, const fp32_t epsilon,
                                       bool is_rms_norm = false) {
  TORCH_CHECK(dropout_p == 0 && !beta_);
  auto f = x0.to(torch::kFloat);
  if (residual_) f = f + residual_->to(torch::kFloat);
  auto centred = is_rms_norm ? f : f - f.mean(-1, true);
  auto rstd = (centred.pow(2).mean(-1, true) + epsilon).rsqrt();
  return {(centred * rstd * gamma.to(torch::kFloat)).to(x0.scalar_type()), f, rstd};
}
