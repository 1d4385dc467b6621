// RMSNorm: out = x * rsqrt(mean(x^2) + eps) * weight. The host side: checks, launch shape, launch.

#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "rmsnorm.cuh"

namespace {

using tvm::ffi::TensorView;

struct LaunchShape {
  int vecs_per_thread;
  int threads_per_row;
  int rows_per_block;
};

int round_up_threads(int threads) {
  if (threads > WARP) return (threads + WARP - 1) / WARP * WARP;
  int power = 1;
  while (power < threads) power *= 2;
  return power;
}

// Few rows leave the device empty, and the time is one row's latency: many threads, little work each. Many
// rows fill it, and the time is throughput: fewer threads per row keep reductions short and more loads in
// flight per thread. Of 10 shapes on an H200 at fp16 and hidden 4096, these were the best or within 1% of it
// at every batch from 1 to 65536; 64 threads never were. In rows per multiprocessor the thresholds travel.
LaunchShape choose_shape(int64_t batch, int vecs_per_row, int multiprocessors) {
  const int64_t rows_per_sm = batch / multiprocessors;
  const int threads_wanted = rows_per_sm < 8     ? MAX_THREADS
                             : rows_per_sm < 64 ? 128
                                                : 256;
  const int block_wanted = rows_per_sm < 8 ? WARP : FULL_BLOCK;

  int vecs = 1;
  while (vecs < MAX_VECS_PER_THREAD && vecs * threads_wanted < vecs_per_row) vecs *= 2;
  const int threads = round_up_threads((vecs_per_row + vecs - 1) / vecs);
  return {vecs, threads, std::max(1, block_wanted / threads)};
}

void* data(const TensorView& tensor) { return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset(); }

bool is_aligned(const TensorView& tensor) { return reinterpret_cast<uintptr_t>(data(tensor)) % 16 == 0; }

template <typename Pair>
void launch_rows(const LaunchShape& shape, const Vec<Pair>* x, const Vec<Pair>* weight, Vec<Pair>* out,
                 int64_t batch, int vecs_per_row, float inverse_hidden, float eps, cudaStream_t stream) {
  const auto kernel = shape.vecs_per_thread == 1   ? rmsnorm_rows<Pair, 1>
                      : shape.vecs_per_thread == 2 ? rmsnorm_rows<Pair, 2>
                      : shape.vecs_per_thread == 4 ? rmsnorm_rows<Pair, 4>
                                                   : rmsnorm_rows<Pair, MAX_VECS_PER_THREAD>;
  const int64_t blocks = (batch + shape.rows_per_block - 1) / shape.rows_per_block;
  kernel<<<blocks, dim3(shape.threads_per_row, shape.rows_per_block), 0, stream>>>(
      x, weight, out, batch, vecs_per_row, inverse_hidden, eps);
}

template <typename Element>
void launch_loop(const TensorView& x, const TensorView& weight, const TensorView& out, int64_t cols,
                 float inverse_hidden, float eps, cudaStream_t stream) {
  rmsnorm_loop<<<x.size(0), MAX_THREADS, 0, stream>>>(
      static_cast<const Element*>(data(x)), static_cast<const Element*>(data(weight)),
      static_cast<Element*>(data(out)), cols, inverse_hidden, eps);
}

template <typename T, typename Pair>
void launch(const TensorView& x, const TensorView& weight, const TensorView& out, float eps) {
  constexpr int VEC = 16 / sizeof(T);
  const int64_t batch = x.size(0), hidden = x.size(1);
  const float inverse_hidden = 1.f / static_cast<float>(hidden);
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));

  const bool vectors = hidden % VEC == 0 && is_aligned(x) && is_aligned(weight) && is_aligned(out);
  if (!vectors) return launch_loop<T>(x, weight, out, hidden, inverse_hidden, eps, stream);
  if (hidden / VEC > MAX_VECS_PER_THREAD * MAX_THREADS)
    return launch_loop<Vec<Pair>>(x, weight, out, hidden / VEC, inverse_hidden, eps, stream);

  int multiprocessors = 0;
  TVM_FFI_CHECK_CUDA_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device.device_id));
  const int vecs_per_row = static_cast<int>(hidden / VEC);
  launch_rows(choose_shape(batch, vecs_per_row, multiprocessors), static_cast<const Vec<Pair>*>(data(x)),
              static_cast<const Vec<Pair>*>(data(weight)), static_cast<Vec<Pair>*>(data(out)), batch,
              vecs_per_row, inverse_hidden, eps, stream);
}

void check_matches_x(const char* name, const TensorView& tensor, const TensorView& x,
                     std::initializer_list<int64_t> shape) {
  if (tensor.ndim() != static_cast<int>(shape.size()))
    TVM_FFI_THROW(ValueError) << name << ": expected " << shape.size() << " dimensions, got "
                              << tensor.ndim();
  for (int axis = 0; axis < tensor.ndim(); ++axis) {
    const int64_t expected = shape.begin()[axis];
    if (tensor.size(axis) != expected)
      TVM_FFI_THROW(ValueError) << name << ": expected size " << expected << " on axis " << axis << ", got "
                                << tensor.size(axis);
  }
  if (tensor.dtype() != x.dtype())
    TVM_FFI_THROW(TypeError) << name << ": expected dtype " << x.dtype() << " as x, got " << tensor.dtype();
  const DLDevice expected = x.device(), got = tensor.device();
  if (got.device_type != expected.device_type || got.device_id != expected.device_id)
    TVM_FFI_THROW(ValueError) << name << ": expected device cuda:" << expected.device_id
                              << " as x, got DLPack device " << got.device_type << ":" << got.device_id;
  if (!tensor.IsContiguous())
    TVM_FFI_THROW(ValueError) << name << ": expected a contiguous tensor, got strides";
}

void run(TensorView x, TensorView weight, double eps, TensorView out) {
  if (x.device().device_type != kDLCUDA)
    TVM_FFI_THROW(ValueError) << "x: expected a CUDA tensor, got DLPack device type "
                              << x.device().device_type;
  if (x.ndim() != 2)
    TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
  const int64_t batch = x.size(0), hidden = x.size(1);
  check_matches_x("x", x, x, {batch, hidden});
  check_matches_x("weight", weight, x, {hidden});
  check_matches_x("out", out, x, {batch, hidden});
  if (batch > INT32_MAX)
    TVM_FFI_THROW(ValueError) << "x: expected a batch of at most " << INT32_MAX << " rows, got " << batch;
  if (batch == 0 || hidden == 0) return;

  const tvm::ffi::CUDADeviceGuard guard(x.device().device_id);
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1})
    launch<__half, __half2>(x, weight, out, static_cast<float>(eps));
  else if (dtype == DLDataType{kDLBfloat, 16, 1})
    launch<__nv_bfloat16, __nv_bfloat162>(x, weight, out, static_cast<float>(eps));
  else if (dtype == DLDataType{kDLFloat, 32, 1})
    launch<float, float2>(x, weight, out, static_cast<float>(eps));
  else
    TVM_FFI_THROW(TypeError) << "x: expected dtype float16, bfloat16 or float32, got " << dtype;
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
