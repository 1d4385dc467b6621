#include "rmsnorm.cuh"

__global__ void WriteFarAway(half* out) { out[int64_t{1} << 45] = half(1); }

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  WriteFarAway<<<x.size(0), 256, 0, CurrentStream(x)>>>(static_cast<half*>(out.data_ptr()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
