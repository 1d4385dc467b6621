// RMSNorm and SiLU gate: out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate),
// in float, rounded once. One block for each row.

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

template <typename Element, typename Weight>
__global__ void normalize_row(const Element* x, const Element* gate, const Weight* weight, float eps, int64_t hidden,
                              Element* out) {
  __shared__ float warp_sums[THREADS / WARP];
  x += blockIdx.x * hidden;
  gate += blockIdx.x * hidden;
  out += blockIdx.x * hidden;

  float squares = 0;
  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    squares += static_cast<float>(x[col]) * static_cast<float>(x[col]);
  }
  for (int offset = WARP / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(~0u, squares, offset);
  if (threadIdx.x % WARP == 0) warp_sums[threadIdx.x / WARP] = squares;
  __syncthreads();
  float total = 0;
  for (const float sum : warp_sums) total += sum;
  const float rstd = rsqrtf(total / hidden + eps);

  for (int64_t col = threadIdx.x; col < hidden; col += THREADS) {
    const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
    const float g = static_cast<float>(gate[col]);
    out[col] = static_cast<Element>(scaled * g / (1 + expf(-g)));  // silu(g) = g * sigmoid(g)
  }
}

template <typename Element, typename Weight>
void launch(TensorView x, TensorView gate, TensorView weight, float eps, TensorView out) {
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  normalize_row<<<x.size(0), THREADS, 0, stream>>>(
      static_cast<const Element*>(x.data_ptr()), static_cast<const Element*>(gate.data_ptr()),
      static_cast<const Weight*>(weight.data_ptr()), eps, x.size(1), static_cast<Element*>(out.data_ptr()));
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

template <typename Element>
void choose_weight(TensorView x, TensorView gate, TensorView weight, float eps, TensorView out) {
  if (weight.dtype() == x.dtype()) return launch<Element, Element>(x, gate, weight, eps, out);
  if (weight.dtype() == DLDataType{kDLFloat, 32, 1}) return launch<Element, float>(x, gate, weight, eps, out);
  TVM_FFI_THROW(TypeError) << "weight: expected the dtype of x or float32, got " << weight.dtype();
}

// Shapes: x, gate and out (batch, hidden); weight (hidden,). All are contiguous.
// The weight has the dtype of x, or float32.
void run(TensorView x, TensorView gate, TensorView weight, double eps, TensorView out) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return choose_weight<__half>(x, gate, weight, eps, out);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return choose_weight<__nv_bfloat16>(x, gate, weight, eps, out);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return choose_weight<float>(x, gate, weight, eps, out);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
