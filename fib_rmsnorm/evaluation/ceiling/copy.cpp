// The copy that kernels are measured against on a CPU: each thread copies an equal part. The threads are pinned to one
// core each, or are those of torch's OpenMP. Surplus reads are folded together, so that the compiler keeps them.
// Surplus writes are of a constant.

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

// 16 bytes, wherever they lie.
using Vec = uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
constexpr int FOLDS = 8;  // independent of each other, so that reads overlap

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

#if defined(__SSE2__)
// Writes past the caches, so that no line is read before it is written. `next` makes the words of a line.
template <typename Next>
void stream(char* to, int64_t size, const Next& next) {
  for (int64_t i = 0; i + LINE <= size; i += LINE) {
#pragma GCC unroll 4
    for (int64_t j = i; j < i + LINE; j += 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to + j), next(j));
  }
  _mm_sfence();
}

// Copies two pages at a time, which the memory serves in parallel, with the widest vectors: up to 1.3 times as fast.
constexpr int64_t PAGE = 4096;

void stream_two_pages(char* to, const char* from, int64_t size) {
  for (int64_t page = 0; page + 2 * PAGE <= size; page += 2 * PAGE) {
    for (int64_t i = page; i < page + PAGE; i += LINE) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < 2 * LINE; j += 16) {
        const int64_t at = i + j / LINE * PAGE + j % LINE;
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
      }
    }
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void stream_two_pages_avx512(char* to, const char* from, int64_t size) {
  for (int64_t page = 0; page + 2 * PAGE <= size; page += 2 * PAGE) {
    for (int64_t i = page; i < page + PAGE; i += LINE) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + PAGE + i), _mm512_loadu_si512(from + PAGE + i));
    }
  }
  _mm_sfence();
}
constexpr bool CAN_STREAM = true;
#else
constexpr bool CAN_STREAM = false;
#endif

struct Copy {
  const char* source;
  char* destination;
  int64_t read, written, threads;
  int64_t streams;  // pages written past the caches at a time: 1 or 2; 0 writes through them

  void run(int64_t part) const {
    const int64_t both = std::min(read, written);
    copy(part_of({0, both}, part, threads));
    if (written > both) fill(part_of({both, written}, part, threads));
    if (read > both) fold(part_of({both, read}, part, threads));
  }

  void copy(Range range) const {
    const char* from = source + range.begin;
    char* to = destination + range.begin;
#if defined(__SSE2__)
    if (streams == 2 && reinterpret_cast<uintptr_t>(to) % LINE == 0) {
      const auto copy_pages = __builtin_cpu_supports("avx512f") ? stream_two_pages_avx512 : stream_two_pages;
      copy_pages(to, from, range.size());
      const int64_t done = range.size() / (2 * PAGE) * (2 * PAGE);
      from += done, to += done, range.begin += done;
    }
    if (streams && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      stream(to, range.size(), [&](int64_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)); });
      const int64_t done = range.size() / LINE * LINE;
      from += done, to += done, range.begin += done;
    }
#endif
    std::memcpy(to, from, static_cast<size_t>(range.size()));
  }

  void fill(Range range) const {
    char* to = destination + range.begin;
#if defined(__SSE2__)
    if (streams && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      stream(to, range.size(), [](int64_t) { return _mm_set1_epi8(1); });
      const int64_t done = range.size() / LINE * LINE;
      to += done, range.begin += done;
    }
#endif
    std::memset(to, 1, static_cast<size_t>(range.size()));
  }

  void fold(Range range) const {
    const char* from = source + range.begin;
    const char* const end = source + range.end;
    Vec sums[FOLDS] = {};
    for (; end - from >= static_cast<int64_t>(sizeof(sums)); from += sizeof(sums)) {
#pragma GCC unroll 8
      for (int i = 0; i < FOLDS; ++i) sums[i] ^= reinterpret_cast<const Vec*>(from)[i];
    }
    Vec sum = {};
#pragma GCC unroll 8
    for (int i = 0; i < FOLDS; ++i) sum ^= sums[i];
    for (; from < end; ++from) sum[0] ^= *from;
    asm volatile("" : : "r"(sum[0] ^ sum[1]));  // keeps the sum, and so the reads
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

Copy make_copy(int64_t source, int64_t destination, int64_t read, int64_t written, int64_t threads, int64_t streams) {
  return {reinterpret_cast<const char*>(source), reinterpret_cast<char*>(destination), read, written, threads, streams};
}

void copy(int64_t source, int64_t destination, int64_t read, int64_t written, int64_t threads, int64_t streams) {
  if (threads < 1 || threads > static_cast<int64_t>(helpers.size()) + 1)
    TVM_FFI_THROW(ValueError) << "threads: expected 1 to " << helpers.size() + 1 << ", got " << threads;
  const Copy job = make_copy(source, destination, read, written, threads, streams);
  for (int64_t i = 1; i < threads; ++i) helpers[i - 1]->start(job, i);
  job.run(0);
  for (int64_t i = 1; i < threads; ++i) helpers[i - 1]->wait();
}

void copy_by_openmp(int64_t source, int64_t destination, int64_t read, int64_t written, int64_t streams) {
  Copy job = make_copy(source, destination, read, written, 1, streams);
  const auto run_part = [](void* data) {
    Copy part = *static_cast<const Copy*>(data);
    part.threads = omp_get_num_threads();
    part.run(omp_get_thread_num());
  };
  GOMP_parallel(run_part, &job, 0, 0);
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
TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy_by_openmp, copy_by_openmp);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(start_openmp, start_openmp);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(can_stream, can_stream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(empty, empty);
