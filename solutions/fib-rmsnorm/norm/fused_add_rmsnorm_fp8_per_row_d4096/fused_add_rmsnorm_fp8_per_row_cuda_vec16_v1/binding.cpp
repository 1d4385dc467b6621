#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual,
         TensorView out_scale) {
  Norm(x, eps)
      .residual(residual)
      .weight(weight)
      .float8_out(out)
      .new_residual(new_residual)
      .row_scales(out_scale)
      .launch();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
