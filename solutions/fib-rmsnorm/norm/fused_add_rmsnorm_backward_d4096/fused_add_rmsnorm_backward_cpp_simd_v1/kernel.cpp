// The gradients of add + RMSNorm, on CPUs, for tvm-ffi: run(dy, dnew_residual, x, weight, rstd, dx, dweight).
#include "norm_form.h"

namespace {

struct Form : RmsNormForm {
  static constexpr bool ADD = true;
};

}  // namespace

#include "gradient_launch.h"

namespace {

void Run(TensorView dy, TensorView dnew_residual, TensorView x, TensorView weight, TensorView rstd, TensorView dx,
         TensorView dweight) {
  GradientTensors tensors{dy, x, weight, rstd, dx, dweight};
  tensors.dnew_residual = &dnew_residual;
  RunBackward(tensors);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
