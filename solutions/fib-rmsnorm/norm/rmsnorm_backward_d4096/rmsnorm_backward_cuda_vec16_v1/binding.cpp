#include "backward_binding.h"

namespace {

void run(TensorView dy, TensorView x, TensorView weight, TensorView rstd, TensorView dx, TensorView dweight) {
  differentiate(dy, nullptr, x, weight, nullptr, rstd, dx, dweight, nullptr);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
