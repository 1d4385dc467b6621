// Kernels that find their rows in 32 bits and in 64 bits. A line that wraps beyond 2^31 elements says so.

#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>

using tvm::ffi::TensorView;

__device__ void copy_row(const __half* x, __half* out, int hidden) {
  for (int col = threadIdx.x; col < hidden; col += blockDim.x) out[col] = x[col];
}

__global__ void in_turn(const __half* x, __half* out, int rows, int hidden) {
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int start = row * hidden;  // wraps
    copy_row(x + start, out + start, hidden);
  }
}

__global__ void in_turn_64(const __half* x, __half* out, int rows, int hidden) {
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t start = static_cast<int64_t>(row) * hidden;
    copy_row(x + start, out + start, hidden);
  }
}

__global__ void of_a_thread(const __half* x, __half* out, int rows, int hidden) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int col = 0; col < hidden; ++col) out[row * hidden + col] = x[row * hidden + col];  // wraps
}

__global__ void in_vectors(const int4* x, int4* out, int hidden) {  // wraps only beyond 2^34 elements
  const int vectors = hidden / 8, start = blockIdx.x * vectors;
  for (int col = threadIdx.x; col < vectors; col += blockDim.x) out[start + col] = x[start + col];
}

__global__ void in_divided(const int4* x, int4* out, int hidden) {
  const int start = static_cast<int>(blockIdx.x) * hidden;  // wraps
  const int at = start / 8 + static_cast<int>(threadIdx.x);
  out[at] = x[at];
}

__global__ void in_unsigned(const __half* x, __half* out, unsigned hidden) {  // wraps only beyond 2^32 elements
  const unsigned at = blockIdx.x * hidden + threadIdx.x;
  out[at] = x[at];
}

__global__ void flat(const __half* x, __half* out, int64_t elements) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;  // wraps
  if (at < elements) out[at] = x[at];
}

struct Arguments {
  const __half* x;
  __half* out;
  int hidden;
};

__global__ void of_a_structure(Arguments given) {
  const int start = blockIdx.y * given.hidden;  // wraps
  copy_row(given.x + start, given.out + start, given.hidden);
}

void run(TensorView x, TensorView, double, TensorView out) {
  const int rows = x.size(0), hidden = x.size(1), blocks = 264;
  const auto* from = static_cast<const __half*>(x.data_ptr());
  auto* to = static_cast<__half*>(out.data_ptr());
  const auto* wide_from = reinterpret_cast<const int4*>(from);
  auto* wide_to = reinterpret_cast<int4*>(to);
  in_turn<<<blocks, 256>>>(from, to, rows, hidden);
  in_turn_64<<<blocks, 256>>>(from, to, rows, hidden);
  of_a_thread<<<(rows + 255) / 256, 256>>>(from, to, rows, hidden);
  in_vectors<<<rows, 256>>>(wide_from, wide_to, hidden);
  in_divided<<<rows, hidden / 8>>>(wide_from, wide_to, hidden);
  in_unsigned<<<rows, hidden>>>(from, to, hidden);
  flat<<<(x.numel() + 255) / 256, 256>>>(from, to, x.numel());
  of_a_structure<<<dim3(1, rows), 256>>>({from, to, hidden});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
