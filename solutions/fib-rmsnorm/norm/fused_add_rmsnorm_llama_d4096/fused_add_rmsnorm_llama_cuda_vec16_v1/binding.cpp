#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual) {
  Norm(x, eps).residual(residual).weight(weight).out(out).new_residual(new_residual).launch();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
