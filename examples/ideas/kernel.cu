// Ideas for a faster RMSNorm, one at a time: for `fib-rmsnorm tune examples/ideas`. docs/kernels.md has what each gave.
//
// Rows of 4096 fp16 elements and no others, so that every idea is a few lines and nothing is decided at run time.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/base.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace {

constexpr int COLS = 4096;
constexpr int WARP = 32;
constexpr int VEC = 8;  // elements of 16 bytes
constexpr int VECS_PER_ROW = COLS / VEC;
constexpr int ROWS_AHEAD = 1024;  // about what runs at once

enum class Weight { EARLY, COMPILER, LATE };         // requested with x, when the compiler likes, after the reduction
enum class Reduction { READ_ALL, SHUFFLES, TWICE };  // how the sums of warps become the row's
enum class Cache { NORMAL, STREAMING, WIDE, AHEAD, KEEP };  // hints to the caches

struct Rows {
  const uint4* x;
  const uint4* weight;
  uint4* out;
  int64_t batch;
  float eps;
};

__device__ float2 widen(uint32_t pair) { return __half22float2(reinterpret_cast<const __half2&>(pair)); }

__device__ uint32_t narrow(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return reinterpret_cast<const uint32_t&>(pair);
}

__device__ float squares(uint4 x) {
  const float2 a = widen(x.x), b = widen(x.y), c = widen(x.z), d = widen(x.w);
  return (a.x * a.x + a.y * a.y + b.x * b.x + b.y * b.y) + (c.x * c.x + c.y * c.y + d.x * d.x + d.y * d.y);
}

__device__ uint32_t scale(uint32_t x, uint32_t weight, float rstd) {
  const float2 a = widen(x), b = widen(weight);
  return narrow(a.x * rstd * b.x, a.y * rstd * b.y);
}

__device__ uint4 scale(uint4 x, uint4 weight, float rstd) {
  return {scale(x.x, weight.x, rstd), scale(x.y, weight.y, rstd), scale(x.z, weight.z, rstd),
          scale(x.w, weight.w, rstd)};
}

// Where it stands: loads through the read-only path the compiler moves down to where they are needed.
template <Cache CACHE = Cache::NORMAL>
__device__ uint4 load_now(const uint4* ptr) {
  uint4 v;
  if constexpr (CACHE == Cache::STREAMING) {
    asm volatile("ld.global.cs.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(ptr));
  } else if constexpr (CACHE == Cache::WIDE) {
    asm volatile("ld.global.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(ptr));
  } else if constexpr (CACHE == Cache::KEEP) {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(ptr), "l"(policy));
  } else {
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(ptr));
  }
  return v;
}

template <Cache CACHE>
__device__ void store(uint4* ptr, uint4 value) {
  if constexpr (CACHE == Cache::STREAMING)
    __stcs(ptr, value);
  else
    *ptr = value;
}

// Predicated, so that no branch leaves out the code before it.
__device__ void store_if(bool is_real, uint4* ptr, uint4 value) {
  asm volatile("{\n.reg .pred real;\nsetp.ne.u32 real, %0, 0;\n@real st.global.v4.u32 [%1], {%2,%3,%4,%5};\n}" ::"r"(
                   static_cast<uint32_t>(is_real)),
               "l"(ptr), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ void copy_async(uint4* to, const uint4* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}

__device__ float warp_sum(float sum, int from = WARP / 2) {
#pragma unroll
  for (int offset = from; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

template <Reduction REDUCTION, int WARPS>
__device__ float row_sum(float sum, float* partials, int thread) {
  sum = warp_sum(sum);
  if constexpr (WARPS == 1) return sum;
  if (thread % WARP == 0) partials[thread / WARP] = sum;
  __syncthreads();
  if constexpr (REDUCTION == Reduction::READ_ALL) {
    if constexpr (WARPS == 2) return partials[0] + partials[1];
    sum = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i += 4) {
      const float4 four = reinterpret_cast<const float4*>(partials)[i / 4];
      sum += (four.x + four.y) + (four.z + four.w);
    }
    return sum;
  }
  if constexpr (REDUCTION == Reduction::TWICE) {
    if (thread < WARP) {
      const float total = warp_sum(thread < WARPS ? partials[thread] : 0.f);
      if (thread == 0) partials[0] = total;
    }
    __syncthreads();
    return partials[0];
  }
  return warp_sum(partials[thread % WARPS], WARPS / 2);
}

// blockDim = (THREADS, rows per block). BLOCKS that shall fit a multiprocessor at once: 1 leaves all registers to
// early loads, more trade them for occupancy.
template <int THREADS, Weight WEIGHT = Weight::EARLY, Reduction REDUCTION = Reduction::READ_ALL,
          Cache CACHE = Cache::NORMAL, int ROWS = 1, int BLOCKS = 1, bool DEPENDENT = false>
__global__ void __launch_bounds__(THREADS* ROWS, BLOCKS) row_kernel(Rows rows) {
#if __CUDA_ARCH__ >= 900
  if (DEPENDENT) asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  constexpr int VECS = VECS_PER_ROW / THREADS, WARPS = THREADS / WARP;
  alignas(16) __shared__ float partials[ROWS][WARPS];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * ROWS + threadIdx.y;
  const bool is_row = ROWS == 1 || row < rows.batch;
  const int64_t first = row * VECS_PER_ROW + threadIdx.x;

  uint4 x[VECS] = {}, weight[VECS] = {};
  if (is_row) {
#pragma unroll
    for (int i = 0; i < VECS; ++i)
      x[i] = WEIGHT == Weight::COMPILER ? __ldg(rows.x + first + i * THREADS)
                                        : load_now<CACHE>(rows.x + first + i * THREADS);
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      if (WEIGHT == Weight::EARLY) weight[i] = load_now(rows.weight + threadIdx.x + i * THREADS);
      if (WEIGHT == Weight::COMPILER) weight[i] = __ldg(rows.weight + threadIdx.x + i * THREADS);
    }
    if (CACHE == Cache::AHEAD && row + ROWS_AHEAD < rows.batch && threadIdx.x < COLS * 2 / 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(rows.x + (row + ROWS_AHEAD) * VECS_PER_ROW + threadIdx.x * 8));
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += squares(x[i]);
  const float total = row_sum<REDUCTION, WARPS>(sum, partials[threadIdx.y], threadIdx.x);
  const float rstd = rsqrtf(total * (1.f / COLS) + rows.eps);
  if (!is_row) return;
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if (WEIGHT == Weight::LATE) weight[i] = load_now(rows.weight + threadIdx.x + i * THREADS);
    store<CACHE>(rows.out + first + i * THREADS, scale(x[i], weight[i], rstd));
  }
}

// Through shared memory (cp.async). With two passes, the first is over what lies there, while x and the weight are on
// their way: it fetches the instructions, and the second, real one finds them in the cache.
template <int THREADS>
__global__ void __launch_bounds__(THREADS, 1) shared_kernel(Rows rows, int passes) {
  constexpr int VECS = VECS_PER_ROW / THREADS, WARPS = THREADS / WARP;
  alignas(16) __shared__ float partials[2][WARPS];
  __shared__ uint4 x_tile[VECS_PER_ROW], weight_tile[VECS_PER_ROW];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * VECS_PER_ROW;
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * THREADS;
    copy_async(x_tile + col, rows.x + first + col);
    copy_async(weight_tile + col, rows.weight + col);
  }
#pragma unroll 1
  for (int pass = 1; pass <= passes; ++pass) {
    if (pass == passes) asm volatile("cp.async.wait_all;" ::: "memory");
    uint4 x[VECS];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      x[i] = x_tile[threadIdx.x + i * THREADS];
      sum += squares(x[i]);
    }
    const float total = row_sum<Reduction::READ_ALL, WARPS>(sum, partials[pass & 1], threadIdx.x);
    const float rstd = rsqrtf(total * (1.f / COLS) + rows.eps);
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * THREADS;
      store_if(pass == passes, rows.out + first + col, scale(x[i], weight_tile[col], rstd));
    }
  }
}

// As many blocks as fit; each walks over the rows, and requests the next while it reduces one.
template <int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) persistent_kernel(Rows rows) {
  constexpr int VECS = VECS_PER_ROW / THREADS, WARPS = THREADS / WARP;
  alignas(16) __shared__ float partials[2][WARPS];
  uint4 weight[VECS], x[VECS], next[VECS];
  int64_t row = blockIdx.x;
#pragma unroll
  for (int i = 0; i < VECS; ++i) next[i] = load_now(rows.x + row * VECS_PER_ROW + threadIdx.x + i * THREADS);
#pragma unroll
  for (int i = 0; i < VECS; ++i) weight[i] = load_now(rows.weight + threadIdx.x + i * THREADS);
  for (int turn = 0; row < rows.batch; row += gridDim.x, turn ^= 1) {
    const int64_t following = row + gridDim.x;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      x[i] = next[i];
      if (following < rows.batch) next[i] = load_now(rows.x + following * VECS_PER_ROW + threadIdx.x + i * THREADS);
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) sum += squares(x[i]);
    const float rstd =
        rsqrtf(row_sum<Reduction::READ_ALL, WARPS>(sum, partials[turn], threadIdx.x) * (1.f / COLS) + rows.eps);
#pragma unroll
    for (int i = 0; i < VECS; ++i)
      rows.out[row * VECS_PER_ROW + threadIdx.x + i * THREADS] = scale(x[i], weight[i], rstd);
  }
}

// The row comes and goes through shared memory by the copy engine (cp.async.bulk, sm_90 and later): one thread asks.
template <int THREADS>
__global__ void __launch_bounds__(THREADS, 1) bulk_kernel(Rows rows) {
#if __CUDA_ARCH__ >= 900
  constexpr int VECS = VECS_PER_ROW / THREADS, WARPS = THREADS / WARP;
  alignas(128) __shared__ uint4 tile[VECS_PER_ROW];
  alignas(16) __shared__ float partials[WARPS];
  alignas(8) __shared__ uint64_t arrived;
  const uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(&arrived));
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  const int64_t first = static_cast<int64_t>(blockIdx.x) * VECS_PER_ROW;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(COLS * 2));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(rows.x + first), "r"(COLS * 2), "r"(barrier)
        : "memory");
  }
  uint4 weight[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) weight[i] = __ldg(rows.weight + threadIdx.x + i * THREADS);
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(
          barrier)
      : "memory");
  uint4 x[VECS];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    x[i] = tile[threadIdx.x + i * THREADS];
    sum += squares(x[i]);
  }
  const float rstd = rsqrtf(row_sum<Reduction::READ_ALL, WARPS>(sum, partials, threadIdx.x) * (1.f / COLS) + rows.eps);
#pragma unroll
  for (int i = 0; i < VECS; ++i) tile[threadIdx.x + i * THREADS] = scale(x[i], weight[i], rstd);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(rows.out + first), "r"(shared),
                 "r"(COLS * 2)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
#endif
}

// Blocks of a cluster share a row; each adds the sums of all through distributed shared memory.
template <int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, 1) cluster_kernel(Rows rows) {
#if __CUDA_ARCH__ >= 900
  constexpr int PART = VECS_PER_ROW / BLOCKS, VECS = PART / THREADS, WARPS = THREADS / WARP;
  alignas(16) __shared__ float partials[BLOCKS * WARPS];
  const int rank = blockIdx.x % BLOCKS;
  const int col = rank * PART + threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x / BLOCKS) * VECS_PER_ROW + col;
  uint4 x[VECS], weight[VECS];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < VECS; ++i) x[i] = load_now(rows.x + first + i * THREADS);
#pragma unroll
  for (int i = 0; i < VECS; ++i) weight[i] = load_now(rows.weight + col + i * THREADS);
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;");  // all blocks run; hidden by the loads
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += squares(x[i]);
  sum = warp_sum(sum);
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (lane < BLOCKS) {
    const uint32_t here = static_cast<uint32_t>(__cvta_generic_to_shared(partials + rank * WARPS + warp));
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(lane));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(sum) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
  sum = 0;
#pragma unroll
  for (int i = 0; i < BLOCKS * WARPS; i += 4) {
    const float4 four = reinterpret_cast<const float4*>(partials)[i / 4];
    sum += (four.x + four.y) + (four.z + four.w);
  }
  const float rstd = rsqrtf(sum * (1.f / COLS) + rows.eps);
#pragma unroll
  for (int i = 0; i < VECS; ++i) rows.out[first + i * THREADS] = scale(x[i], weight[i], rstd);
#endif
}

int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

template <int THREADS, int BLOCKS>
void launch_persistent(const Rows& rows, cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(rows.batch, BLOCKS * multiprocessors());
  persistent_kernel<THREADS, BLOCKS><<<blocks, THREADS, 0, stream>>>(rows);
}

// Nothing is kept in registers: x is read again after the reduction, from L1, and the weight only then.
template <int THREADS>
__global__ void __launch_bounds__(THREADS, 2048 / THREADS) twice_kernel(Rows rows) {
  constexpr int VECS = VECS_PER_ROW / THREADS, WARPS = THREADS / WARP;
  alignas(16) __shared__ float partials[WARPS];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * VECS_PER_ROW + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += squares(load_now<Cache::NORMAL>(rows.x + first + i * THREADS));
  const float rstd = rsqrtf(row_sum<Reduction::READ_ALL, WARPS>(sum, partials, threadIdx.x) * (1.f / COLS) + rows.eps);
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const uint4 x = load_now<Cache::NORMAL>(rows.x + first + i * THREADS);
    const uint4 weight = load_now<Cache::NORMAL>(rows.weight + threadIdx.x + i * THREADS);
    rows.out[first + i * THREADS] = scale(x, weight, rstd);
  }
}

void launch_with(const cudaLaunchAttribute& attribute, void (*kernel)(Rows), const Rows& rows, int64_t blocks,
                 int threads, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = const_cast<cudaLaunchAttribute*>(&attribute);
  config.numAttrs = 1;
  TVM_FFI_CHECK_CUDA_ERROR(cudaLaunchKernelEx(&config, kernel, rows));
}

// Programmatic dependent launch: the blocks may start before the kernel in front of them has ended, and wait for it.
void launch_dependent(const Rows& rows, cudaStream_t stream) {
  const auto kernel = row_kernel<256, Weight::EARLY, Reduction::READ_ALL, Cache::NORMAL, 1, 1, true>;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  launch_with(early, kernel, rows, rows.batch, 256, stream);
}

void launch_cluster(const Rows& rows, cudaStream_t stream) {
  cudaLaunchAttribute pairs = {};
  pairs.id = cudaLaunchAttributeClusterDimension;
  pairs.val.clusterDim = {2, 1, 1};
  launch_with(pairs, cluster_kernel<256, 2>, rows, rows.batch * 2, 256, stream);
}

template <int THREADS, Weight WEIGHT = Weight::EARLY, Reduction REDUCTION = Reduction::READ_ALL,
          Cache CACHE = Cache::NORMAL, int ROWS = 1, int BLOCKS = 1>
void launch_row(const Rows& rows, cudaStream_t stream) {
  const int64_t blocks = (rows.batch + ROWS - 1) / ROWS;
  row_kernel<THREADS, WEIGHT, REDUCTION, CACHE, ROWS, BLOCKS><<<blocks, dim3(THREADS, ROWS), 0, stream>>>(rows);
}

void launch(int idea, const Rows& rows, cudaStream_t stream) {
  constexpr auto EARLY = Weight::EARLY;
  constexpr auto READ_ALL = Reduction::READ_ALL;
  constexpr auto NORMAL = Cache::NORMAL;
  switch (idea) {
    // Threads for a row: bytes in flight against warps.
    case 0: return launch_row<512>(rows, stream);
    case 1: return launch_row<256>(rows, stream);
    case 2: return launch_row<128>(rows, stream);
    case 3: return launch_row<64>(rows, stream);
    // When the weight is requested.
    case 10: return launch_row<512, Weight::COMPILER>(rows, stream);
    case 11: return launch_row<256, Weight::COMPILER>(rows, stream);
    case 12: return launch_row<256, Weight::LATE>(rows, stream);
    // The reduction.
    case 20: return launch_row<512, EARLY, Reduction::SHUFFLES>(rows, stream);
    case 21: return launch_row<256, EARLY, Reduction::SHUFFLES>(rows, stream);
    case 22: return launch_row<256, EARLY, Reduction::TWICE>(rows, stream);
    case 23: return launch_cluster(rows, stream);
    // The caches.
    case 30: return launch_row<256, EARLY, READ_ALL, Cache::STREAMING>(rows, stream);
    case 31: return launch_row<256, EARLY, READ_ALL, Cache::WIDE>(rows, stream);
    case 32: return launch_row<256, EARLY, READ_ALL, Cache::AHEAD>(rows, stream);
    case 33: shared_kernel<256><<<rows.batch, 256, 0, stream>>>(rows, 1); return;
    case 34: shared_kernel<256><<<rows.batch, 256, 0, stream>>>(rows, 2); return;
    case 35: bulk_kernel<256><<<rows.batch, 256, 0, stream>>>(rows); return;
    case 36: return launch_row<256, EARLY, READ_ALL, Cache::KEEP>(rows, stream);
    case 37: twice_kernel<256><<<rows.batch, 256, 0, stream>>>(rows); return;
    // The grid.
    case 40: return launch_row<256, EARLY, READ_ALL, NORMAL, 2>(rows, stream);
    case 41: return launch_row<256, EARLY, READ_ALL, NORMAL, 1, 8>(rows, stream);
    case 42: return launch_persistent<256, 4>(rows, stream);
    case 43: return launch_dependent(rows, stream);
  }
  TVM_FFI_THROW(ValueError) << "idea: there is no number " << idea;
}

struct Choice {
  int64_t hidden, itemsize, multiprocessors, min_batch;
  int idea;
};

constexpr std::initializer_list<Choice> CHOICES = {
#include "choices.inc"
};

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {
  const DLDevice device = x.device();
  if (x.dtype() != DLDataType{kDLFloat, 16, 1}) TVM_FFI_THROW(TypeError) << "x: expected float16, got " << x.dtype();
  if (x.size(1) != COLS) TVM_FFI_THROW(ValueError) << "x: expected " << COLS << " columns, got " << x.size(1);
  const Rows rows{static_cast<const uint4*>(x.data_ptr()), static_cast<const uint4*>(weight.data_ptr()),
                  static_cast<uint4*>(out.data_ptr()), x.size(0), static_cast<float>(eps)};
  if (rows.batch == 0) return;
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  int idea = 1;
  for (const Choice& each : CHOICES) {
    if (each.min_batch <= rows.batch) idea = each.idea;
  }
  launch(idea, rows, stream);
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
