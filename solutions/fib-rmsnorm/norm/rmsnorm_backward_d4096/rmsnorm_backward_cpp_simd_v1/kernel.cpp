// The gradients of RMSNorm, on CPUs, for tvm-ffi: run(dy, x, weight, rstd, dx, dweight).
#include "norm_form.h"

namespace {

using Form = RmsNormForm;

}  // namespace

#include "gradient_launch.h"

namespace {

void Run(TensorView dy, TensorView x, TensorView weight, TensorView rstd, TensorView dx, TensorView dweight) {
  RunBackward({dy, x, weight, rstd, dx, dweight});
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
