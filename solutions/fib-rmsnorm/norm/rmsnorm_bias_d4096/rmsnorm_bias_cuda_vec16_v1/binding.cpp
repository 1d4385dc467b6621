#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView weight, TensorView bias, double eps, TensorView out) {
  Norm(x, eps).weight(weight).bias(bias).out(out).launch();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
