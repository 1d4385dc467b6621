#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

using tvm::ffi::TensorView;

__global__ void Reduce(const half* x, float eps, int64_t hidden, float* rstd) {
  __shared__ float warp_sums[8];
  x += blockIdx.x * hidden;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < hidden; c += 256) sum += __half2float(x[c]) * __half2float(x[c]);
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int warp = 0; warp < 8; ++warp) sum += warp_sums[warp];
    rstd[blockIdx.x] = 1 / sqrtf(sum / hidden + eps);
  }
}

__global__ void Scale(const half* x, const half* weight, const float* rstd, int64_t hidden, half* out) {
  x += blockIdx.x * hidden;
  out += blockIdx.x * hidden;
  for (int64_t c = threadIdx.x; c < hidden; c += 256) {
    out[c] = __float2half(__half2float(x[c]) * rstd[blockIdx.x] * __half2float(weight[c]));
  }
}

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  static float* workspace = nullptr;
  static int64_t capacity = 0;
  const int64_t batch = x.size(0), hidden = x.size(1);
  if (batch > capacity) {
    cudaFree(workspace);
    cudaMalloc(&workspace, batch * sizeof(float));
    capacity = batch;
  }
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  const auto* x_ptr = static_cast<const half*>(x.data_ptr());
  Reduce<<<batch, 256, 0, stream>>>(x_ptr, eps, hidden, workspace);
  Scale<<<batch, 256, 0, stream>>>(x_ptr, static_cast<const half*>(weight.data_ptr()), workspace, hidden,
                                   static_cast<half*>(out.data_ptr()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
