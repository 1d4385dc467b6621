// Kernels that do one thing each, in the launch shape of a normalization: a block for a row of 8 KB. So what a clock
// adds to one but not to another can be told apart (probe_clocks.py).

#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int THREADS = 256;
constexpr int VECS = 2;
constexpr int WARP = 32;

// In the order of KINDS in probe_clocks.py.
enum Kind { EMPTY, SPIN, READ, WRITE, COPY, FENCED_COPY };

__device__ int64_t now() {
  int64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

// stamps: null, or begin and end of each warp in ns.
template <Kind KIND>
__global__ void probe(const uint4* from, uint4* to, int64_t cycles, int64_t* stamps) {
  constexpr bool COPIES = KIND == COPY || KIND == FENCED_COPY;
  constexpr bool READS = COPIES || KIND == READ, WRITES = COPIES || KIND == WRITE;
  const int64_t began = stamps == nullptr ? 0 : now();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS * VECS + threadIdx.x;
  if (KIND == SPIN) {
    const int64_t start = clock64();
    while (clock64() - start < cycles) continue;
  }
  uint4 vecs[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) vecs[i] = READS ? from[first + i * THREADS] : uint4{threadIdx.x, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    // Never true of what is read, which the compiler cannot know.
    const bool needed = WRITES || (vecs[i].x & vecs[i].y & vecs[i].z & vecs[i].w) == 0xffffffffu;
    if ((READS || WRITES) && needed) to[first + i * THREADS] = vecs[i];
  }
  if (KIND == FENCED_COPY) __threadfence();  // what was written has arrived
  if (stamps != nullptr) {
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
      int64_t* const pair = stamps + 2 * (blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP);
      pair[0] = began;
      pair[1] = now();
    }
  }
}

}  // namespace

// Enqueues a probe; 0, or a CUDA error.
extern "C" int launch(int kind, int rows, const void* from, void* to, int64_t cycles, int64_t* stamps,
                      cudaStream_t stream) {
  constexpr decltype(&probe<EMPTY>) PROBES[] = {probe<EMPTY>, probe<SPIN>, probe<READ>,
                                                probe<WRITE>, probe<COPY>, probe<FENCED_COPY>};
  PROBES[kind]<<<rows, THREADS, 0, stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), cycles, stamps);
  return cudaGetLastError();
}
