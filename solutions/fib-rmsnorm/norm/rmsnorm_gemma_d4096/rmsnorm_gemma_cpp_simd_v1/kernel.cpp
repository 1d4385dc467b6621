// RMSNorm times 1 + weight, as in Gemma, on CPUs, for tvm-ffi: run(x, weight, eps, out).
#include "norm_form.h"

namespace {

struct Form : RmsNormForm {
  static constexpr Weight WEIGHT = Weight::ONE_PLUS;
};

}  // namespace

#include "norm_launch.h"

namespace {

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  NormTensors tensors{x, out};
  tensors.weight = &weight;
  Normalize(tensors, eps);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
