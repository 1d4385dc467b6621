// Threads that share the chunks of one job at a time and soon sleep when there is none.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "openmp.h"

namespace {

// The processors that the calling thread may run on.
class CpuSet {
 public:
  static CpuSet OfThisThread() {
    CpuSet cpus;
#if defined(__linux__)
    if (sched_getaffinity(0, sizeof(cpus.mask_), &cpus.mask_) == 0) {
      cpus.count_ = CPU_COUNT(&cpus.mask_);
      return cpus;
    }
    CPU_ZERO(&cpus.mask_);  // more processors than cpu_set_t holds
#endif
    cpus.count_ = static_cast<int>(std::thread::hardware_concurrency());
    return cpus;
  }

  int count() const { return count_; }

  bool operator==(const CpuSet& other) const {
#if defined(__linux__)
    if (!CPU_EQUAL(&mask_, &other.mask_)) return false;
#endif
    return count_ == other.count_;
  }

 private:
#if defined(__linux__)
  cpu_set_t mask_{};
#endif
  int count_ = 0;
};

// Chunks in as many contiguous parts as there are threads. A thread claims those of its own part
// one by one: operators of torch share rows out alike, so what they wrote is in the same core's
// cache. (512 rows: 1.04 times as fast as chunks in turn at best, 1.2 by the median.) Then it helps
// the others, so one that starts late or shares its core takes fewer.
struct Job {
  static constexpr int MOST_PARTS = 64;

  int64_t chunks;
  int parts;
  void (*run_chunk)(const void* context, int64_t chunk);
  const void* context;
  struct alignas(64) Claims {
    std::atomic<int64_t> count{0};
  } claims[MOST_PARTS] = {};

  void Work(int thread) {
    for (int i = 0; i < parts; ++i) {
      const int part = (thread + i) % parts;
      const int64_t begin = chunks * part / parts, end = chunks * (part + 1) / parts;
      std::atomic<int64_t>& claimed = claims[part].count;
      int64_t chunk;
      while ((chunk = begin + claimed.fetch_add(1, std::memory_order_relaxed)) < end) {
        run_chunk(context, chunk);
      }
    }
  }
};

// Waits for the condition for a moment, giving the processor to whoever else wants it. Waking
// a thread that sleeps takes about as long.
template <typename Condition>
void WaitBriefly(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

class ThreadPool {
 public:
  // The pool of this process. A forked child inherits none of its parent's threads, so it
  // makes a pool of its own and forgets the parent's.
  static ThreadPool& OfThisProcess() {
    ThreadPool* pool = instance_.load(std::memory_order_acquire);
    if (pool != nullptr && pool->process_ == getpid()) return *pool;
    auto* fresh = new ThreadPool;
    if (instance_.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *pool;
  }

  // Runs the job on the calling thread and on idle workers. Where another thread is using the
  // pool, the caller works alone.
  void Run(Job& job, const CpuSet& cpus) {
    if (busy_.exchange(true, std::memory_order_acquire)) return job.Work(0);
    if (!(cpus == cpus_)) Restart(cpus);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      job_number_.fetch_add(1, std::memory_order_release);
    }
    const int64_t helpers = std::min<int64_t>(job.chunks - 1, workers_.size());
    for (int64_t i = 0; i < helpers; ++i) wake_.notify_one();
    job.Work(0);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = nullptr;  // from here on no worker joins
    }
    WaitBriefly([this] { return active_.load(std::memory_order_acquire) == 0; });
    {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return active_ == 0; });
    }
    busy_.store(false, std::memory_order_release);
  }

  // Ends the workers before the code they run is unloaded, at exit or with the module. The
  // pool stays busy, so later calls work alone.
  static void Shutdown() {
    ThreadPool* pool = instance_.load(std::memory_order_acquire);
    if (pool == nullptr || pool->process_ != getpid()) return;
    while (pool->busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    pool->Stop();
  }

 private:
  void Restart(const CpuSet& cpus) {
    Stop();
    cpus_ = cpus;
    try {
      while (static_cast<int>(workers_.size()) + 1 < cpus.count()) {
        const int thread = static_cast<int>(workers_.size()) + 1;  // the caller is 0
        workers_.emplace_back([this, thread] { Loop(thread); });
      }
    } catch (const std::system_error&) {
      // No more threads to be had: go on with those there are.
    }
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_ = false;
  }

  void Loop(int thread) {
    for (uint64_t seen = 0;;) {
      WaitBriefly([&] { return job_number_.load(std::memory_order_relaxed) != seen; });
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || (job_ != nullptr && job_number_ != seen); });
      if (stop_) return;
      seen = job_number_;
      Job* job = job_;
      ++active_;
      lock.unlock();
      job->Work(thread);
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  static std::atomic<ThreadPool*> instance_;

  const pid_t process_ = getpid();
  std::atomic<bool> busy_{false};  // held by the thread whose job the workers share
  CpuSet cpus_;                    // what the workers inherited when they started
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // held to change what follows
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::atomic<uint64_t> job_number_{0};
  std::atomic<int> active_{0};
  bool stop_ = false;
};

std::atomic<ThreadPool*> ThreadPool::instance_{nullptr};

const struct ShutdownAtUnload {
  ~ShutdownAtUnload() { ThreadPool::Shutdown(); }
} SHUTDOWN_AT_UNLOAD;

// Calls body(chunk) for each chunk in [0, chunks), on up to as many threads as there are in cpus:
// those that are awake, or if it is worth waking them, others.
template <typename Body>
void ForEachChunk(int64_t chunks, const CpuSet& cpus, bool worth_waking, const Body& body) {
  const auto run_chunk = [](const void* context, int64_t chunk) { (*static_cast<const Body*>(context))(chunk); };
  const int threads = std::max(1, cpus.count());
  Job job{chunks, std::min(threads, Job::MOST_PARTS), run_chunk, &body};
  if (threads == 1) return job.Work(0);
  if (RunOnOpenMP(threads, [&](int thread) { job.Work(thread); })) return;
  if (!worth_waking) return job.Work(0);
  ThreadPool::OfThisProcess().Run(job, cpus);
}

}  // namespace
