#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView weight, tvm::ffi::AnyView out_scale, double eps, TensorView out) {
  Norm(x, eps).weight(weight).scale(out_scale).float8_out(out).launch();
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
