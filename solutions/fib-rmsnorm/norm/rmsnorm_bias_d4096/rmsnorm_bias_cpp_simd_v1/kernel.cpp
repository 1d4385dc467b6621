// RMSNorm with a bias, on CPUs, for tvm-ffi: run(x, weight, bias, eps, out).
// The weight and the bias have the dtype of x, or float32.
#include "norm_form.h"

namespace {

struct Form : RmsNormForm {
  static constexpr bool BIAS = true;
};

}  // namespace

#include "norm_launch.h"

namespace {

void Run(TensorView x, TensorView weight, TensorView bias, double eps, TensorView out) {
  NormTensors tensors{x, out};
  tensors.weight = &weight;
  tensors.bias = &bias;
  Normalize(tensors, eps);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
