#include <cuda_fp16.h>
extern "C" __global__ void naive(const __half* x, const __half* weight, __half* out, int cols) {
  __shared__ float part[256];
  const __half* row = x + size_t(blockIdx.x) * cols;
  float sum = 0;
#pragma unroll 1
  for (int col = threadIdx.x; col < cols; col += blockDim.x) sum += __half2float(row[col]) * __half2float(row[col]);
  part[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll 1
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  const float rms = sqrtf(part[0] / cols + 1e-6);
#pragma unroll 1
  for (int col = threadIdx.x; col < cols; col += blockDim.x)
    out[size_t(blockIdx.x) * cols + col] = __float2half(__half2float(row[col]) / rms * __half2float(weight[col]));
}
extern "C" __global__ void wide(const uint4* x, uint4* out) {
  const uint4 first = x[threadIdx.x], second = x[threadIdx.x + 256];
  out[threadIdx.x] = make_uint4(first.x ^ second.x, first.y, first.z, second.w);
}
extern "C" __global__ void reverse(const float* x, float* out) {
  __shared__ float shared[256];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = rsqrtf(shared[255 - threadIdx.x]);
}
extern "C" __global__ void sum(const float2* x, float* out, int count) {
  float total = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += 32) total = fmaf(x[i].x, x[i].y, total);
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  if (threadIdx.x == 0) *out = total;
}
extern "C" __global__ void spill(const float* x, float* out, const int* at) {
  float kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = x[i];
  for (int i = 0; i < 9; ++i) kept[at[i]] += x[at[i + 1]];
  *out = kept[at[10]];
}
extern "C" __global__ void widen(const __half* x, float* out) { out[threadIdx.x] = __half2float(x[threadIdx.x]); }
