// Add + RMSNorm: the sum is normalized in float, and both outputs are rounded once. One block for each row.

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

template <typename Element>
__global__ void add_and_normalize_row(const Element* x, const Element* residual, const Element* weight, float eps,
                                      int64_t hidden, Element* out, Element* new_residual) {
  __shared__ float warp_sums[THREADS / WARP];
  const int64_t start_of_row = blockIdx.x * hidden;
  x += start_of_row;
  residual += start_of_row;
  out += start_of_row;
  new_residual += start_of_row;

  float squares = 0;
  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float total = static_cast<float>(x[col]) + static_cast<float>(residual[col]);
    new_residual[col] = static_cast<Element>(total);
    squares += total * total;
  }
  for (int offset = WARP / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(~0u, squares, offset);
  if (threadIdx.x % WARP == 0) warp_sums[threadIdx.x / WARP] = squares;
  __syncthreads();
  float sum = 0;
  for (const float warp_sum : warp_sums) sum += warp_sum;
  const float rstd = rsqrtf(sum / hidden + eps);

  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {  // adds again, because new_residual is rounded
    const float total = static_cast<float>(x[col]) + static_cast<float>(residual[col]);
    out[col] = static_cast<Element>(total * rstd * static_cast<float>(weight[col]));
  }
}

template <typename Element>
void launch(TensorView x, TensorView residual, TensorView weight, float eps, TensorView out, TensorView new_residual) {
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  add_and_normalize_row<<<x.size(0), THREADS, 0, stream>>>(
      static_cast<const Element*>(x.data_ptr()), static_cast<const Element*>(residual.data_ptr()),
      static_cast<const Element*>(weight.data_ptr()), eps, x.size(1), static_cast<Element*>(out.data_ptr()),
      static_cast<Element*>(new_residual.data_ptr()));
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

// Shapes: weight (hidden,), all other tensors (batch, hidden). All are contiguous and of one dtype.
void run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return launch<__half>(x, residual, weight, eps, out, new_residual);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return launch<__nv_bfloat16>(x, residual, weight, eps, out, new_residual);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return launch<float>(x, residual, weight, eps, out, new_residual);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
