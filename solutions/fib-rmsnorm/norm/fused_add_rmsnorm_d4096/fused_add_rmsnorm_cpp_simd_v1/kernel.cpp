// Add + RMSNorm on CPUs, for tvm-ffi: run(x, residual, weight, eps, out, new_residual). The sum is normalized before it
// is rounded to new_residual, which may be the residual's own memory.
#include "norm_form.h"

namespace {

struct Form : RmsNormForm {
  static constexpr bool ADD = true;
};

}  // namespace

#include "norm_launch.h"

namespace {

void Run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual) {
  NormTensors tensors{x, out};
  tensors.residual = &residual;
  tensors.weight = &weight;
  tensors.new_residual = &new_residual;
  Normalize(tensors, eps);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
