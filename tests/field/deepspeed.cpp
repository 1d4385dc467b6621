// 0 Called as ds_rms_norm(x, weight, eps)
#include <torch/extension.h>
at::Tensor ds_rms_norm(at::Tensor& input, at::Tensor& gamma, float epsilon) {
  at::Tensor f = input.to(at::kFloat);
  return (f * (f.pow(2).mean(-1, true) + epsilon).rsqrt() * gamma.to(at::kFloat)).to(input.scalar_type());
}
std::vector<at::Tensor> ds_pre_rms_norm(at::Tensor& input, at::Tensor& residual, at::Tensor& gamma, float epsilon) {
  at::Tensor r = residual + input;
  return {ds_rms_norm(r, gamma, epsilon), r};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("rms_norm_fp16", &ds_rms_norm, "DeepSpeed rms norm");
  m.def("pre_rms_norm_fp16", &ds_pre_rms_norm, "DeepSpeed pre rms norm");
}
