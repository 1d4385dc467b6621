// RMSNorm without a weight, on CPUs, for tvm-ffi: run(x, eps, out).
#include "norm_form.h"

namespace {

struct Form : RmsNormForm {
  static constexpr Weight WEIGHT = Weight::NONE;
};

}  // namespace

#include "norm_launch.h"

namespace {

void Run(TensorView x, double eps, TensorView out) {
  NormTensors tensors{x, out};
  Normalize(tensors, eps);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
