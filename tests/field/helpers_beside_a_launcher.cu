// 2 Called as launch_rms_norm(out, x, weight, batch, hidden, eps, stream)
#include <cuda_fp16.h>
template <int kThreads>
__device__ __forceinline__ float block_sum(float v) {
  __shared__ float part[kThreads / 32];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  float s = 0;
  for (int i = 0; i < kThreads / 32; ++i) s += part[i];
  return s;
}
static inline __device__ void store_row(__half* out, const __half* x, const __half* weight, int n, float k) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = __float2half(__half2float(x[i]) * k * __half2float(weight[i]));
}
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    rms_kernel(__half* out, const __half* x, const __half* weight, int d, float eps) {
  const long at = (long)blockIdx.x * d;
  float s = 0;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    float v = __half2float(x[at + i]);
    s += v * v;
  }
  store_row(out + at, x + at, weight, d, rsqrtf(block_sum<kThreads>(s) / d + eps));
}
void rms_norm_cpu(__half* out, const __half* x, const __half* weight, int n, int d, float eps) {}
static int pick(const __half* x, int d) { return d > 1024 ? 256 : 128; }
void launch_rms_norm(__half* out, const __half* x, const __half* weight, int n, int d, float eps, cudaStream_t stream) {
  pick(x, d);
  rms_kernel<256><<<n, 256, 0, stream>>>(out, x, weight, d, eps);
}
