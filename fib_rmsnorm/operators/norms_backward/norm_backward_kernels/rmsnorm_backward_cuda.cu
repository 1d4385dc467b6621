// The gradients of RMSNorm in float, each rounded once: dx with a block for each row, dweight by columns.

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
constexpr int ROWS = 16;  // that a block adds at once, each with a warp

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
__global__ void differentiate_row(const Element* dy, const Element* x, const Element* weight, const float* rstds,
                                  int64_t hidden, Element* dx) {
  const float rstd = rstds[blockIdx.x];
  dy += blockIdx.x * hidden;
  x += blockIdx.x * hidden;
  dx += blockIdx.x * hidden;

  float products = 0;
  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float scaled = static_cast<float>(dy[col]) * static_cast<float>(weight[col]);
    products += scaled * static_cast<float>(x[col]) * rstd;
  }
  const float mean_product = sum_of_block(products) / hidden;

  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float scaled = static_cast<float>(dy[col]) * static_cast<float>(weight[col]);
    dx[col] = static_cast<Element>((scaled - static_cast<float>(x[col]) * rstd * mean_product) * rstd);
  }
}

// A warp adds every ROWS-th row of its columns; then one thread adds the warps' sums, always in the same order.
template <typename Element>
__global__ void add_rows(const Element* dy, const Element* x, const float* rstds, int64_t batch, int64_t hidden,
                         Element* dweight) {
  __shared__ float sums[ROWS][WARP];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * WARP + threadIdx.x;
  float sum = 0;
  for (int64_t row = threadIdx.y; row < batch && col < hidden; row += ROWS) {
    const int64_t place = row * hidden + col;
    sum += static_cast<float>(dy[place]) * static_cast<float>(x[place]) * rstds[row];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= hidden) return;
  for (int other = 1; other < ROWS; ++other) sum += sums[other][threadIdx.x];
  dweight[col] = static_cast<Element>(sum);
}

template <typename Element>
void launch(TensorView dy, TensorView x, TensorView weight, TensorView rstd, TensorView dx, TensorView dweight) {
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* dy_ptr = static_cast<const Element*>(dy.data_ptr());
  const auto* x_ptr = static_cast<const Element*>(x.data_ptr());
  const auto* rstd_ptr = static_cast<const float*>(rstd.data_ptr());
  differentiate_row<<<batch, THREADS, 0, stream>>>(dy_ptr, x_ptr, static_cast<const Element*>(weight.data_ptr()),
                                                   rstd_ptr, hidden, static_cast<Element*>(dx.data_ptr()));
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
  add_rows<<<(hidden + WARP - 1) / WARP, dim3(WARP, ROWS), 0, stream>>>(dy_ptr, x_ptr, rstd_ptr, batch, hidden,
                                                                        static_cast<Element*>(dweight.data_ptr()));
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

// Shapes: dy, x and dx (batch, hidden), weight and dweight (hidden,), of one dtype; rstd (batch,), float32.
void run(TensorView dy, TensorView x, TensorView weight, TensorView rstd, TensorView dx, TensorView dweight) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return launch<__half>(dy, x, weight, rstd, dx, dweight);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return launch<__nv_bfloat16>(dy, x, weight, rstd, dx, dweight);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return launch<float>(dy, x, weight, rstd, dx, dweight);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
