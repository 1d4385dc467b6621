// The OpenMP threads that the process has already, which are torch's where it is loaded.
//
// They go on spinning for milliseconds after each parallel operator, and so start at once. A thread
// of our own would have to wake up, and finds its processor taken by one that spins: right after an
// operator of torch, on two processors, 512 rows take twice as long, as long as on one.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#if defined(__linux__)
// libgomp's entry points, which the OpenMP libraries of LLVM and Intel have too. They are not
// linked: null where none is loaded.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) int omp_get_thread_num();
}
#endif

namespace {

// OpenMP waits for all of its threads, even one that another process keeps from its processor, for
// milliseconds. After a wait of this length, and longer than the caller worked, so many jobs go
// without it. (On two processors with other work: the median stays, the mean of 512 rows falls to
// 0.6, that of 64 to 0.3.)
constexpr auto LONG_WAIT = std::chrono::milliseconds(1);
constexpr int JOBS_WITHOUT = 8;

// Calls body(thread) on up to as many threads at once; false if it should not. A forked child has
// none of the threads that OpenMP believes to have, and would wait for them for ever.
template <typename Body>
bool RunOnOpenMP(int threads, const Body& body) {
#if defined(__linux__)
  static const pid_t process = getpid();
  static std::atomic<int> without{0};
  const bool found = GOMP_parallel && omp_get_max_threads && omp_get_thread_num;
  if (!found || getpid() != process) return false;
  if (without.load(std::memory_order_relaxed) > 0) {
    without.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  using Clock = std::chrono::steady_clock;
  struct Team {
    const Body& body;
    Clock::time_point caller_done;
  } team{body, {}};
  const auto started = Clock::now();
  const auto call = [](void* data) {
    Team& team = *static_cast<Team*>(data);
    const int thread = omp_get_thread_num();
    team.body(thread);
    if (thread == 0) team.caller_done = Clock::now();
  };
  const int most = std::min(threads, omp_get_max_threads());
  GOMP_parallel(call, &team, static_cast<unsigned>(most), 0);
  const auto waited = Clock::now() - team.caller_done;
  if (waited > LONG_WAIT && waited > team.caller_done - started) without = JOBS_WITHOUT;
  return true;
#else
  (void)threads, (void)body;
  return false;
#endif
}

}  // namespace
