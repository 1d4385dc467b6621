// 1 does not export 'run'
#include <torch/extension.h>

struct RMSNormImpl : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones(4096));
  double eps = 1e-5;

  torch::Tensor forward(torch::Tensor x) { return x * torch::rsqrt(x.pow(2).mean(-1, true) + eps) * weight; }
};
