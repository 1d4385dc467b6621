#include "rmsnorm.cuh"

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  static cudaStream_t stream = [] {
    cudaStream_t made;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  static cudaEvent_t event = [] {
    cudaEvent_t made;
    cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    return made;
  }();
  cudaEventRecord(event, CurrentStream(x));
  cudaStreamWaitEvent(stream, event);
  Launch(x, weight, eps, static_cast<half*>(out.data_ptr()), x.size(0), stream);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(CurrentStream(x), event);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
