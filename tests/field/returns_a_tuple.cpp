// 0 Called as rms_norm_affine(x, {hidden}, weight, {}, eps)[0]
#include <ATen/ATen.h>
#include <torch/library.h>

struct Counter {
  at::Tensor forward(at::Tensor x) { return x; }
};

std::tuple<at::Tensor, at::Tensor> rms_norm_affine(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                   const at::Tensor& gamma, const std::optional<at::Tensor>& beta,
                                                   double epsilon) {
  at::Tensor f = input.to(at::kFloat);
  at::Tensor invvar = (f.pow(2).mean(-1, true) + epsilon).rsqrt();
  at::Tensor y = f * invvar * gamma.to(at::kFloat);
  return {(beta ? y + *beta : y).to(input.scalar_type()), invvar};
}
TORCH_LIBRARY_FRAGMENT(field, m) {
  m.def(
      "rms_norm_affine(Tensor input, int[] normalized_shape, Tensor gamma, Tensor? beta, float eps) -> (Tensor, "
      "Tensor)");
  m.impl("rms_norm_affine", c10::kCPU, &rms_norm_affine);
}
