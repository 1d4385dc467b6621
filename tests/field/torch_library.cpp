// 0 Called as rms_norm(out, x, weight, eps)
#include <torch/extension.h>
static torch::Tensor mean_square(torch::Tensor x) { return x.pow(2).mean(-1, true); }
void rms_norm(torch::Tensor& out, const torch::Tensor& input, const torch::Tensor& weight, double epsilon) {
  auto f = input.to(torch::kFloat);
  out.copy_(f * (mean_square(f) + epsilon).rsqrt() * weight.to(torch::kFloat));
}
void fused_add_rms_norm(torch::Tensor& input, torch::Tensor& residual, torch::Tensor& weight, double epsilon) {
  residual.add_(input);
  rms_norm(input, residual, weight, epsilon);
}
TORCH_LIBRARY(mine, m) {
  m.def("rms_norm(Tensor! out, Tensor input, Tensor weight, float epsilon) -> ()");
  m.impl("rms_norm", torch::kCPU, &rms_norm);
}
