#include "rmsnorm.cuh"

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  auto* out_ptr = static_cast<half*>(out.data_ptr());
  Launch(x, weight, eps, out_ptr, x.size(0), CurrentStream(x));
  Launch(x, weight, eps, out_ptr + x.size(0) * x.size(1), 1, CurrentStream(x));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
