#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView weight, double eps, TensorView out, TensorView out_scale) {
  Norm(x, eps).weight(weight).float8_out(out).row_scales(out_scale).launch();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
