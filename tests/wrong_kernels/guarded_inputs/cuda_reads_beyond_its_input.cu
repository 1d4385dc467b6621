#include "rmsnorm.cuh"

__global__ void Read(const volatile uint16_t* beyond) {
  const uint16_t unused = *beyond;
  (void)unused;
}

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  Launch(x, weight, eps, static_cast<half*>(out.data_ptr()), x.size(0), CurrentStream(x));
  Read<<<1, 1, 0, CurrentStream(x)>>>(static_cast<const uint16_t*>(x.data_ptr()) + x.size(0) * x.size(1));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
