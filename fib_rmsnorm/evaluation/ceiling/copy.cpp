// The copy that kernels are measured against on a CPU: it reads and writes as many streams at a time as a Definition
// has large tensors. Each thread copies an equal part of each. The threads are pinned to one core each, or are those of
// torch's OpenMP. Surplus reads are folded together, so that the compiler keeps them. Surplus writes are of a constant.

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Null if the process has no OpenMP. Torch's OpenMP threads spin for a while after each operator, so they start at
// once. A helper has to wake up and to take its core from one of them.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) int omp_get_thread_num();
__attribute__((weak)) int omp_get_num_threads();
}

namespace {

constexpr int64_t LINE = 64;
constexpr int FOLDS = 4;  // sums of lines, independent of each other, so that reads overlap

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// One of `parts` parts of [begin, end), cut between cache lines.
Range part_of(Range whole, int64_t part, int64_t parts) {
  const int64_t lines = (whole.size() + LINE - 1) / LINE;
  const auto cut = [&](int64_t i) { return std::min(whole.end, whole.begin + lines * i / parts * LINE); };
  return {cut(part), cut(part + 1)};
}

using Line = uint64_t __attribute__((vector_size(LINE), aligned(1), may_alias));

// Writes a line past the caches, so that it is not read before it is written. `to` must be a multiple of LINE.
#if defined(__SSE2__)
constexpr bool CAN_STREAM = true;
inline void stream_line(char* to, const Line& line) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(&line));
#else
#pragma GCC unroll 4
  for (int64_t i = 0; i < LINE; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&line) + i)));
#endif
}
inline void end_streaming() { _mm_sfence(); }
#else
constexpr bool CAN_STREAM = false;
inline void stream_line(char* to, const Line& line) { *reinterpret_cast<Line*>(to) = line; }
inline void end_streaming() {}
#endif

constexpr int64_t PAGE = 4096;
constexpr int MAX_READS = 4, MAX_WRITES = 3;

// The streams of a direction lie `stride` apart. All have `size` bytes, but the last has its own number: the bytes of
// small tensors follow it. What is written is the XOR of all that is read at the same place.
struct Copy {
  const char* source;
  char* destination;
  int64_t stride, size, last_read, last_written;
  int64_t reads, writes, threads;
  int64_t pages;  // written past the caches at a time: 1 or 2, which the memory serves in parallel; 0: through them

  void run(int64_t part) const {
    const int64_t rest = reads * writes > 1 ? size : INT64_MAX;
    const int64_t all = std::min({last_read, last_written, rest});  // that every stream has
    move<1, 1>(part_of({0, all}, part, threads));
    for (int64_t i = 0; i < writes; ++i)
      fill(destination + i * stride, part_of({all, i + 1 < writes ? size : last_written}, part, threads));
    for (int64_t i = 0; i < reads; ++i)
      fold(source + i * stride, part_of({all, i + 1 < reads ? size : last_read}, part, threads));
  }

  template <int READS, int WRITES>
  void move(Range range) const {
    if constexpr (READS < MAX_READS) {
      if (reads > READS) return move<READS + 1, WRITES>(range);
    }
    if constexpr (WRITES < MAX_WRITES) {
      if (writes > WRITES) return move<READS, WRITES + 1>(range);
    }
    const auto read_line = [&](int64_t at, Line& line) {
      line = *reinterpret_cast<const Line*>(source + at);
#pragma GCC unroll 4
      for (int r = 1; r < READS; ++r) line ^= *reinterpret_cast<const Line*>(source + r * stride + at);
    };
    if (can_stream(destination + range.begin) && stride % LINE == 0) {
      const auto copy_line = [&](int64_t at) {
        Line line;
        read_line(at, line);
#pragma GCC unroll 3
        for (int w = 0; w < WRITES; ++w) stream_line(destination + w * stride + at, line);
      };
      if (pages == 2) {
        for (; range.size() >= 2 * PAGE; range.begin += 2 * PAGE) {
          for (int64_t at = range.begin; at < range.begin + PAGE; at += LINE) copy_line(at), copy_line(at + PAGE);
        }
      }
      for (; range.size() >= LINE; range.begin += LINE) copy_line(range.begin);
      end_streaming();
    }
    if (READS * WRITES == 1) {
      std::memcpy(destination + range.begin, source + range.begin, static_cast<size_t>(range.size()));
      return;
    }
    for (; range.size() >= LINE; range.begin += LINE) {
      Line line;
      read_line(range.begin, line);
#pragma GCC unroll 3
      for (int w = 0; w < WRITES; ++w) *reinterpret_cast<Line*>(destination + w * stride + range.begin) = line;
    }
    for (int64_t at = range.begin; at < range.end; ++at) {
      char sum = source[at];
      for (int r = 1; r < READS; ++r) sum ^= source[r * stride + at];
      for (int w = 0; w < WRITES; ++w) destination[w * stride + at] = sum;
    }
  }

  bool can_stream(const char* to) const { return pages > 0 && reinterpret_cast<uintptr_t>(to) % LINE == 0; }

  void fill(char* to, Range range) const {
    if (can_stream(to + range.begin)) {
      const Line line = {1, 1, 1, 1, 1, 1, 1, 1};
      for (; range.size() >= LINE; range.begin += LINE) stream_line(to + range.begin, line);
      end_streaming();
    }
    if (range.size() > 0) std::memset(to + range.begin, 1, static_cast<size_t>(range.size()));
  }

  static void fold(const char* from, Range range) {
    const char* const end = from + range.end;
    Line sums[FOLDS] = {};
    for (from += range.begin; end - from >= static_cast<int64_t>(sizeof(sums)); from += sizeof(sums)) {
#pragma GCC unroll 4
      for (int i = 0; i < FOLDS; ++i) sums[i] ^= reinterpret_cast<const Line*>(from)[i];
    }
    Line sum = sums[0];
#pragma GCC unroll 4
    for (int i = 1; i < FOLDS; ++i) sum ^= sums[i];
    for (; from < end; ++from) sum[0] ^= *from;
#pragma GCC unroll 8
    for (int i = 1; i < 8; ++i) sum[0] ^= sum[i];
    asm volatile("" : : "r"(sum[0]));  // keeps the sum, and so the reads
  }
};

// A thread pinned to one core. After a job it spins for a moment, because waking up takes longer than a small copy.
// Then it sleeps, so that it does not disturb the next measurement.
class Helper {
 public:
  explicit Helper(int core) {
    std::thread([this, core] {
      pin(core);
      serve();
    }).detach();
  }

  void start(const Copy& job, int64_t part) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      part_ = part;
      started_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_one();
  }

  void wait() const {
    for (int spins = 0; done_.load(std::memory_order_acquire) != started_.load(std::memory_order_relaxed);) {
      if (++spins > 1000) std::this_thread::yield();
    }
  }

 private:
  static constexpr auto SPIN_TIME = std::chrono::microseconds(50);

  // The calling thread, which a sandboxed process may pin; others it may not, since it would name them by a number.
  static void pin(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
  }

  void serve() {
    for (uint64_t seen = 0;; ++seen) {
      const auto until = std::chrono::steady_clock::now() + SPIN_TIME;
      while (started_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until) {
      }
      if (started_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return started_.load(std::memory_order_relaxed) != seen; });
      }
      job_->run(part_);
      done_.store(seen + 1, std::memory_order_release);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> started_{0}, done_{0};
  const Copy* job_ = nullptr;
  int64_t part_ = 0;
};

// Never destroyed, because the threads may still run when the process ends.
std::vector<std::unique_ptr<Helper>>& helpers = *new std::vector<std::unique_ptr<Helper>>;

// Starts a thread on each of the cores. The caller's thread is the first of every copy.
void start_helpers(const tvm::ffi::Array<int64_t>& cores) {
  if (!helpers.empty()) return;
  for (const int64_t core : cores) helpers.push_back(std::make_unique<Helper>(static_cast<int>(core)));
}

void run_on_openmp(Copy& job) {
  const auto run_part = [](void* data) {
    Copy part = *static_cast<const Copy*>(data);
    part.threads = omp_get_num_threads();
    part.run(omp_get_thread_num());
  };
  GOMP_parallel(run_part, &job, 0, 0);
}

// With 0 threads, those of OpenMP.
void copy(int64_t source, int64_t destination, int64_t stride, int64_t size, int64_t last_read, int64_t last_written,
          int64_t reads, int64_t writes, int64_t threads, int64_t pages) {
  if (threads < 0 || threads > static_cast<int64_t>(helpers.size()) + 1)
    TVM_FFI_THROW(ValueError) << "threads: expected 0 to " << helpers.size() + 1 << ", got " << threads;
  Copy job{reinterpret_cast<const char*>(source),
           reinterpret_cast<char*>(destination),
           stride,
           size,
           last_read,
           last_written,
           reads,
           writes,
           threads,
           pages};
  if (threads == 0) return run_on_openmp(job);
  for (int64_t i = 1; i < threads; ++i) helpers[i - 1]->start(job, i);
  job.run(0);
  for (int64_t i = 1; i < threads; ++i) helpers[i - 1]->wait();
}

// Starts OpenMP's threads, which stay on the cores that the caller may use now. Returns their number; 0 without OpenMP.
int64_t start_openmp() {
  if (!GOMP_parallel || !omp_get_max_threads || !omp_get_thread_num || !omp_get_num_threads) return 0;
  GOMP_parallel([](void*) {}, nullptr, 0, 0);
  return omp_get_max_threads();
}

bool can_stream() { return CAN_STREAM; }

void empty() {}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(start_helpers, start_helpers);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy, copy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(start_openmp, start_openmp);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(can_stream, can_stream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(empty, empty);
