// 2 Called as RMSNorm(x, weight, out, batch, hidden, hidden, hidden, eps, false, stream)
#include <cuda_fp16.h>
#include <cstdint>
template <uint32_t VEC, typename T>
__global__ void RMSNormKernel(T* __restrict__ input, T* __restrict__ weight, T* __restrict__ output, const uint32_t d,
                              const uint32_t stride_input, const uint32_t stride_output, float eps) {
  extern __shared__ float smem[];
  float s = 0;
  for (uint32_t i = threadIdx.x; i < d; i += blockDim.x) {
    float v = float(input[blockIdx.x * stride_input + i]);
    s += v * v;
  }
  atomicAdd(smem, s);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < d; i += blockDim.x)
    output[blockIdx.x * stride_output + i] =
        T(float(input[blockIdx.x * stride_input + i]) * rsqrtf(smem[0] / d + eps) * float(weight[i]));
}
cudaError_t RMSNorm(half* input, half* weight, half* output, uint32_t batch_size, uint32_t d, uint32_t stride_input,
                    uint32_t stride_output, float eps = 1e-5, bool enable_pdl = false, cudaStream_t stream = 0) {
  RMSNormKernel<8, half><<<batch_size, 256, 4, stream>>>(input, weight, output, d, stride_input, stride_output, eps);
  return cudaGetLastError();
}
