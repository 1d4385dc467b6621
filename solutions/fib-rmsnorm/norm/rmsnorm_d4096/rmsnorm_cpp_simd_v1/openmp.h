// The OpenMP threads that the process has already, which are torch's where it is loaded.
//
// They go on spinning for milliseconds after each parallel operator, and so start within 2 us. A
// thread of our own wakes up in 50 us and finds its processor taken by one that spins: 512 rows
// after an operator of torch, on two processors, take twice as long.
#pragma once

#include <unistd.h>

#include <algorithm>

#if defined(__linux__)
// libgomp's entry points, which the OpenMP libraries of LLVM and Intel have too. They are not
// linked: null where none is loaded.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*body)(void*), void* data, unsigned threads,
                                         unsigned flags);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) int omp_get_thread_num();
}
#endif

namespace {

// Calls body(thread) on up to as many threads at once; false if it cannot. A forked child has none
// of the threads that OpenMP believes to have, and would wait for them for ever.
template <typename Body>
bool RunOnOpenMP(int threads, const Body& body) {
#if defined(__linux__)
  static const pid_t process = getpid();
  const bool found = GOMP_parallel && omp_get_max_threads && omp_get_thread_num;
  if (!found || getpid() != process) return false;
  const auto call = [](void* data) { (*static_cast<const Body*>(data))(omp_get_thread_num()); };
  const int most = std::min(threads, omp_get_max_threads());
  GOMP_parallel(call, const_cast<Body*>(&body), static_cast<unsigned>(most), 0);
  return true;
#else
  (void)threads, (void)body;
  return false;
#endif
}

}  // namespace
