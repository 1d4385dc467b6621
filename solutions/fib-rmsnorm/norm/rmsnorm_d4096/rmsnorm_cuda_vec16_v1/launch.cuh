#pragma once

// The launch: chooses a kernel for the shape.

#include "launch.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "enqueue.cuh"
#include "rmsnorm.cuh"
#include "row_shape.cuh"

namespace {

template <typename Pair>
using EnqueueRow = cudaError_t (*)(const Queue&, dim3, dim3, const Vec<Pair>*, const Vec<Pair>*, Vec<Pair>*, float,
                                   unsigned int);

// The kernel for rows of exactly `vecs` vectors for each of the threads; null where there is none.
template <typename Pair, int VECS>
EnqueueRow<Pair> find_row_kernel(int vecs, int threads) {
  if (vecs == VECS) {
    if (threads == 128) return Enqueue<rmsnorm_row<Pair, VECS, 128>>::run;
    if (threads == 256) return Enqueue<rmsnorm_row<Pair, VECS, 256>>::run;
    if (threads == 512) return Enqueue<rmsnorm_row<Pair, VECS, 512>>::run;
    return nullptr;
  }
  if constexpr (VECS < MAX_VECS_PER_THREAD) return find_row_kernel<Pair, 2 * VECS>(vecs, threads);
  return nullptr;
}

template <typename Pair>
cudaError_t launch_rows(const Rows& rows, const LaunchShape& shape, int vecs_per_row, float inverse_hidden,
                        const Queue& queue) {
  const auto x = static_cast<const Vec<Pair>*>(rows.x), weight = static_cast<const Vec<Pair>*>(rows.weight);
  const auto out = static_cast<Vec<Pair>*>(rows.out);
  const int threads = shape.threads_per_row, vecs = shape.vecs_per_thread;
  if (shape.rows_per_block == 1 && threads * vecs == vecs_per_row) {
    if (const auto enqueue = find_row_kernel<Pair, 1>(vecs, threads))
      return enqueue(queue, rows.batch, threads, x, weight, out, rows.eps, 0u);
  }
  const auto enqueue = vecs == 1   ? Enqueue<rmsnorm_rows<Pair, 1>>::run
                       : vecs == 2 ? Enqueue<rmsnorm_rows<Pair, 2>>::run
                       : vecs == 4 ? Enqueue<rmsnorm_rows<Pair, 4>>::run
                                   : Enqueue<rmsnorm_rows<Pair, MAX_VECS_PER_THREAD>>::run;
  const int64_t blocks = (rows.batch + shape.rows_per_block - 1) / shape.rows_per_block;
  return enqueue(queue, blocks, dim3(threads, shape.rows_per_block), x, weight, out, rows.batch, vecs_per_row,
                 inverse_hidden, rows.eps);
}

template <typename Element>
cudaError_t launch_loop(const Rows& rows, int64_t cols, float inverse_hidden, const Queue& queue) {
  return Enqueue<rmsnorm_loop<Element>>::run(queue, rows.batch, MAX_THREADS, static_cast<const Element*>(rows.x),
                                             static_cast<const Element*>(rows.weight), static_cast<Element*>(rows.out),
                                             cols, inverse_hidden, rows.eps);
}

template <typename T, typename Pair>
cudaError_t launch_here(const Rows& rows, const Queue& queue) {
  constexpr int VEC = 16 / sizeof(T);
  const float inverse_hidden = 1.f / static_cast<float>(rows.hidden);
  const int64_t vecs_per_row = rows.hidden / VEC;

  if (rows.hidden % VEC != 0 || !is_aligned(rows.x) || !is_aligned(rows.weight) || !is_aligned(rows.out))
    return launch_loop<T>(rows, rows.hidden, inverse_hidden, queue);
  if (vecs_per_row > MAX_VECS_PER_THREAD * MAX_THREADS)
    return launch_loop<Vec<Pair>>(rows, vecs_per_row, inverse_hidden, queue);
  int multiprocessors = 0;
  const cudaError_t error = count_multiprocessors(queue.device, multiprocessors);
  if (error != cudaSuccess) return error;
  const int vecs = static_cast<int>(vecs_per_row);
  const LaunchShape shape = choose_shape(rows.batch, rows.hidden, sizeof(T), vecs, multiprocessors);
  return launch_rows<Pair>(rows, shape, vecs, inverse_hidden, queue);
}

// For the functions that launch.h declares: rows of T, whose arithmetic takes two at a time, on any device.
template <typename T, typename Pair>
const char* launch(const Rows& rows, int device, void* stream) {
  const Queue queue{device, static_cast<cudaStream_t>(stream)};
  int before = device;
  cudaError_t error = cudaGetDevice(&before);
  if (error == cudaSuccess && before != device) error = cudaSetDevice(device);
  if (error == cudaSuccess) error = launch_here<T, Pair>(rows, queue);
  if (error == cudaErrorDeviceUninitialized) {  // a thread's first call: the runtime gives it a context, not the driver
    error = cudaSetDevice(device);
    if (error == cudaSuccess) error = launch_here<T, Pair>(rows, queue);
  }
  if (before != device) cudaSetDevice(before);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace
