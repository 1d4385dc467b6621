// 0 PASSED as rmsnorm_d4096
#include <torch/extension.h>

torch::Tensor rms_norm(torch::Tensor input, torch::Tensor weight, double eps) {
  auto x = input.to(torch::kFloat32);
  auto rstd = torch::rsqrt(x.pow(2).mean(-1, true) + eps);
  return (x * rstd * weight.to(torch::kFloat32)).to(input.dtype());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rms_norm", &rms_norm, "RMSNorm"); }
