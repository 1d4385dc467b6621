#include "rows.h"

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
