// 0 Called as rmsnorm_forward(x, weight, {}, eps)
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor rmsnorm_forward(const at::Tensor& input, const at::Tensor& gamma, const std::optional<at::Tensor>& beta,
                           double eps) {
  at::Tensor f = input.to(at::kFloat);
  f = f * (f.pow(2).mean(-1, true) + eps).rsqrt() * gamma.to(at::kFloat);
  return (beta ? f + *beta : f).to(input.scalar_type());
}
TORCH_LIBRARY_FRAGMENT(field, m) {
  m.def("rmsnorm_forward(Tensor input, Tensor gamma, Tensor? beta, float eps) -> Tensor");
  m.impl("rmsnorm_forward", c10::kCPU, &rmsnorm_forward);
}
