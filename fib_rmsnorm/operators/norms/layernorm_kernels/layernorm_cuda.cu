// LayerNorm: out = (x - mean) * rsqrt(var + eps) * weight, in float, rounded once. One block for each row.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/base.h>
#include <tvm/ffi/function.h>

#include <cstdint>

using tvm::ffi::TensorView;

constexpr int THREADS = 256;  // for each row: whole warps
constexpr int WARP = 32;

// The sum of a value over all threads of a block.
__device__ float sum_of_block(float value) {
  __shared__ float warp_sums[THREADS / WARP];
  for (int offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  __syncthreads();  // the sums of the call before have been read
  if (threadIdx.x % WARP == 0) warp_sums[threadIdx.x / WARP] = value;
  __syncthreads();
  float total = 0;
  for (const float sum : warp_sums) total += sum;
  return total;
}

template <typename Element>
__global__ void normalize_row(const Element* x, const Element* weight, float eps, int64_t hidden, Element* out) {
  x += blockIdx.x * hidden;
  out += blockIdx.x * hidden;

  float sum = 0;
  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) sum += static_cast<float>(x[col]);
  const float mean = sum_of_block(sum) / hidden;

  float squares = 0;  // of x - mean: mean(x^2) - mean^2 would lose the digits of a large mean
  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float centered = static_cast<float>(x[col]) - mean;
    squares += centered * centered;
  }
  const float rstd = rsqrtf(sum_of_block(squares) / hidden + eps);

  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
    out[col] = static_cast<Element>(normalized * static_cast<float>(weight[col]));
  }
}

template <typename Element>
void launch(TensorView x, TensorView weight, float eps, TensorView out) {
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  normalize_row<<<x.size(0), THREADS, 0, stream>>>(static_cast<const Element*>(x.data_ptr()),
                                                   static_cast<const Element*>(weight.data_ptr()), eps, x.size(1),
                                                   static_cast<Element*>(out.data_ptr()));
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

// Shapes: x and out (batch, hidden), weight (hidden,). All are contiguous and of one dtype.
void run(TensorView x, TensorView weight, double eps, TensorView out) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return launch<__half>(x, weight, eps, out);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return launch<__nv_bfloat16>(x, weight, eps, out);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return launch<float>(x, weight, eps, out);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
