#pragma once

// How rows reach blocks that stay for many of them: the next are requested before work on a row begins. `start`
// requests the first, `advance` awaits a row, `read` gives its vectors, and `read_again` gives them after the sums over
// the row are known. What was widened in between is not kept, for it takes twice the registers.

#include <cuda_runtime.h>

#include <cstdint>

#include "backward_row.cuh"

namespace {

template <typename Element>
struct Terms {
  Element x, dy, weight;
};

// One row ahead, in registers.
template <typename Pair, int VECTORS, int ROW_THREADS, int ROWS>
class RowsInRegisters {
 public:
  using Element = Vec<Pair>;
  static constexpr int VECS = VECTORS, THREADS = ROW_THREADS, AT_ONCE = ROWS;

  __device__ void start(const Tensors<Element>& tensors, int64_t row, int64_t, int batch, int cols) {
    if (row < batch) next_.request(tensors, row, cols);
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * THREADS;
      weight_[i] = {};
      if (col < cols) weight_[i] = load_now(tensors.weight + col);
    }
  }
  __device__ Statistics advance(const Tensors<Element>& tensors, int64_t row, int64_t stride, int batch, int cols) {
    here_ = next_;
    if (row + stride < batch) next_.request(tensors, row + stride, cols);
    return here_.of;
  }
  __device__ Terms<Element> read(int i) const { return {here_.x[i], here_.dy[i], weight_[i]}; }
  __device__ Terms<Element> read_again(int i, unsigned int zero) {
    keep_packed_until(here_.x[i], zero);
    keep_packed_until(here_.dy[i], zero);
    keep_packed_until(weight_[i], zero);
    return read(i);
  }
  __device__ const Element& added(int i) const { return here_.added[HAS_RESIDUAL ? i : 0]; }

 private:
  Row<Pair, VECS, THREADS> next_, here_;
  Element weight_[VECS];
};

// AHEAD rows ahead, by asynchronous copies to shared memory. Of a row, each thread reads only what it copied: it waits
// for nobody, and copies to a place again after it has read there. There is no place for the gradient of a residual.
template <typename Pair, int VECTORS, int ROW_THREADS, int ROWS, int AHEAD>
class RowsInSharedMemory {
 public:
  using Element = Vec<Pair>;
  static constexpr int VECS = VECTORS, THREADS = ROW_THREADS, AT_ONCE = ROWS;

 private:
  static constexpr unsigned int VEC = THREADS * ROWS * sizeof(Element), SLOT = 2 * VECS * VEC;  // x, dy
  static constexpr unsigned int SLOTS = (AHEAD + 1) * SLOT;  // bytes, as all of these

 public:
  static constexpr unsigned int BYTES = SLOTS + VECS * THREADS * sizeof(Element);  // the rows, the weight

  __device__ void start(const Tensors<Element>& tensors, int64_t row, int64_t stride, int batch, int cols) {
    extern __shared__ uint4 memory[];
    const unsigned int first = static_cast<unsigned int>(__cvta_generic_to_shared(memory));
    mine_ = first + (threadIdx.y * THREADS + threadIdx.x) * sizeof(Element);
    weight_ = first + SLOTS + threadIdx.x * sizeof(Element);
    here_ = AHEAD * SLOT;  // before the first
    free_ = 0;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) next_[i] = request(tensors, row + i * stride, batch, cols);
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int col = threadIdx.x + i * THREADS;
      if (threadIdx.y == 0)
        memory[SLOTS / sizeof(Element) + col] = col < cols ? load_now(tensors.weight + col).words : uint4{};
    }
    __syncthreads();
  }
  __device__ Statistics advance(const Tensors<Element>& tensors, int64_t row, int64_t stride, int batch, int cols) {
    const Statistics of = next_[0];
#pragma unroll
    for (int i = 0; i + 1 < AHEAD; ++i) next_[i] = next_[i + 1];
    next_[AHEAD - 1] = request(tensors, row + AHEAD * stride, batch, cols);
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
    here_ = after(here_);
    return of;
  }
  __device__ Terms<Element> read(int i) const {
    return {read_shared(mine_ + here_ + i * VEC), read_shared(mine_ + here_ + (VECS + i) * VEC),
            read_shared(weight_ + i * THREADS * sizeof(Element))};
  }
  __device__ Terms<Element> read_again(int i, unsigned int) const { return read(i); }
  __device__ Element added(int) const { return {}; }

 private:
  __device__ static unsigned int after(unsigned int slot) { return slot + SLOT == SLOTS ? 0 : slot + SLOT; }

  // Volatile, for the compiler would keep what it has read.
  __device__ static Element read_shared(unsigned int address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address)
                 : "memory");
    return {words};
  }

  // Copies a vector, or zeros beyond the end of the row.
  __device__ static void copy(unsigned int to, const Element* row, int col, int cols) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(row + (col < cols ? col : 0)),
                 "r"(col < cols ? 16 : 0)
                 : "memory");
  }

  // A group of copies, which is empty if there is no such row: groups are counted.
  __device__ Statistics request(const Tensors<Element>& tensors, int64_t row, int batch, int cols) {
    Statistics of = {0.f, 0.f};
    if (row < batch) {
#pragma unroll
      for (int i = 0; i < VECS; ++i) {
        const int col = threadIdx.x + i * THREADS;
        copy(mine_ + free_ + i * VEC, tensors.x + row * cols, col, cols);
        copy(mine_ + free_ + (VECS + i) * VEC, tensors.dy + row * cols, col, cols);
      }
      of = load_statistics(tensors.mean, tensors.rstd, row);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    free_ = after(free_);
    return of;
  }

  unsigned int mine_, weight_, here_, free_;  // addresses and offsets in shared memory
  Statistics next_[AHEAD];
};

}  // namespace
