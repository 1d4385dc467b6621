// 2 Called as launch_rms_norm(out, x, weight, batch, hidden, eps, stream)
#include <cuda_fp16.h>

__global__ void rms_norm_kernel(__half* out, const __half* input, const __half* weight, int hidden, float eps) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float x = __half2float(input[blockIdx.x * hidden + i]);
    sum += x * x;
  }
  atomicAdd(&total, sum);
  __syncthreads();
  const float rstd = rsqrtf(total / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    out[blockIdx.x * hidden + i] =
        __float2half(__half2float(input[blockIdx.x * hidden + i]) * rstd * __half2float(weight[i]));
}

void launch_rms_norm(__half* out, const __half* input, const __half* weight, int num_tokens, int hidden_size, float eps,
                     cudaStream_t stream) {
  rms_norm_kernel<<<num_tokens, 256, 0, stream>>>(out, input, weight, hidden_size, eps);
}
