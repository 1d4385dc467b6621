#include "norm_binding.h"

namespace {

void run(TensorView x, double eps, TensorView out) { Norm(x, eps).out(out).launch(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
