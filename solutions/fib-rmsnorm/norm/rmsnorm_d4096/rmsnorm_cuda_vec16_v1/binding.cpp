#include "norm_binding.h"

namespace {

void run(TensorView x, TensorView weight, double eps, TensorView out) { Norm(x, eps).weight(weight).out(out).launch(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
