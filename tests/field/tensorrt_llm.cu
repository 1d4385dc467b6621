// 2 Called as invokeGeneralRmsNorm(out, x, weight, eps, batch, hidden, stream)
#include <cuda_fp16.h>
namespace tensorrt_llm::kernels {
template <typename T, bool USE_SHMEM>
__global__ void generalRmsNorm(T const* input, T const* gamma, T* normed_output, float const eps, int const tokens,
                               int const hidden_dim) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.0f;
  __syncthreads();
  int const bidx = blockIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float const v = static_cast<float>(input[bidx * hidden_dim + i]);
    sum += v * v;
  }
  atomicAdd(&total, sum);
  __syncthreads();
  float const s = rsqrtf(total / hidden_dim + eps);
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    normed_output[bidx * hidden_dim + i] =
        static_cast<T>(static_cast<float>(input[bidx * hidden_dim + i]) * s * static_cast<float>(gamma[i]));
  }
}

template <typename T>
void dispatch(T const* input, T const* gamma, T* out, float const eps, int const tokens, int const hidden_dim,
              dim3 const grid, dim3 const block, cudaStream_t stream) {
  generalRmsNorm<T, false><<<grid, block, 0, stream>>>(input, gamma, out, eps, tokens, hidden_dim);
}

void invokeGeneralRmsNorm(half* out, half const* input, half const* gamma, float const eps, int const tokens,
                          int const hidden_dim, cudaStream_t stream) {
  dim3 grid(tokens);
  dim3 block(min(hidden_dim, 1024));
  dispatch(input, gamma, out, eps, tokens, hidden_dim, grid, block, stream);
}
}  // namespace tensorrt_llm::kernels
