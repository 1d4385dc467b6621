// The gradients of LayerNorm, on CPUs, for tvm-ffi: run(dy, x, weight, mean, rstd, dx, dweight, dbias).
#include "norm_form.h"

namespace {

using Form = LayerNormForm;

}  // namespace

#include "gradient_launch.h"

namespace {

void Run(TensorView dy, TensorView x, TensorView weight, TensorView mean, TensorView rstd, TensorView dx,
         TensorView dweight, TensorView dbias) {
  GradientTensors tensors{dy, x, weight, rstd, dx, dweight};
  tensors.mean = &mean;
  tensors.dbias = &dbias;
  RunBackward(tensors);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
