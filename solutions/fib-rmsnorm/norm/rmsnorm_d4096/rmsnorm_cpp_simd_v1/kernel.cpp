// RMSNorm on CPUs, for tvm-ffi: run(x, weight, eps, out). The weight has the dtype of x, or float32.
#include "norm_form.h"

namespace {
using Form = RmsNormForm;
}

#include "norm_launch.h"

namespace {

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  NormTensors tensors{x, out};
  tensors.weight = &weight;
  Normalize(tensors, eps);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
