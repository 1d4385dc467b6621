#include "backward_binding.h"

namespace {

void run(TensorView dy, TensorView x, TensorView weight, TensorView mean, TensorView rstd, TensorView dx,
         TensorView dweight, TensorView dbias) {
  differentiate(dy, nullptr, x, weight, &mean, rstd, dx, dweight, &dbias);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
