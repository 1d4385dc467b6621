// 2 Called as invokeRMSNorm(out, hidden, x, hidden, weight, nullptr, hidden, batch, eps, stream)
#pragma once
#include <cuda_fp16.h>
__global__ void rms_norm(half* out, int out_ld, const half* x, int x_ld, const half* w, const half* bias, int n,
                         float eps) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += float(x[blockIdx.x * x_ld + i]) * float(x[blockIdx.x * x_ld + i]);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[blockIdx.x * out_ld + i] = half(float(x[blockIdx.x * x_ld + i]) * rsqrtf(sum / n + eps) * float(w[i]) +
                                        (bias != nullptr ? float(bias[i]) : 0.0f));
}
inline int invokeRMSNorm(void* dst, int dst_ld, const void* src, int src_ld, const void* weights, const void* bias,
                         int dims, int num, float eps, void* stream) {
  rms_norm<<<num, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<half*>(dst), dst_ld, static_cast<const half*>(src), src_ld, static_cast<const half*>(weights),
      static_cast<const half*>(bias), dims, eps);
  return static_cast<int>(cudaGetLastError());
}
