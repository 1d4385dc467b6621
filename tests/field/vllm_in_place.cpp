// 0 Called as fused_add_rms_norm((out := x), (new_residual := residual), weight, eps)
// definition: fused_add_rmsnorm_d4096
#include <torch/extension.h>

void fused_add_rms_norm(torch::Tensor& input, torch::Tensor& residual, torch::Tensor& weight, double epsilon) {
  auto total = input.to(torch::kFloat32) + residual.to(torch::kFloat32);
  auto rstd = torch::rsqrt(total.pow(2).mean(-1, true) + epsilon);
  residual.copy_(total);
  input.copy_(total * rstd * weight.to(torch::kFloat32));
}
