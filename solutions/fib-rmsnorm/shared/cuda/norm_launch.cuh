#pragma once

// The launch: chooses a kernel for the shape.

#include <cuda_runtime.h>

#include <cstdint>

#include "enqueue.cuh"
#include "norm_arguments.cuh"
#include "norm_call.h"
#include "norm_form.h"
#include "norm_kernels.cuh"
#include "row_shape.cuh"

namespace {

template <class Form, typename Pair>
using EnqueueRow = cudaError_t (*)(const Queue&, dim3, dim3, Arguments<Form, Vec<Pair>>, float, unsigned int);

// The kernel for rows of exactly `vecs` vectors for each of the threads; null where there is none. What is asked for
// rarely has only that of the usual number of threads, since each kernel takes a compiler 0.2 s.
template <class Form, typename Pair, int VECS>
EnqueueRow<Form, Pair> find_row_kernel(int vecs, int threads) {
  if (vecs == VECS) {
    if (threads == 256) return Enqueue<norm_row<Form, Pair, VECS, 256>>::run;
    if constexpr (!Form::FLOAT_WEIGHT && !Form::E5M2) {
      if (threads == 128) return Enqueue<norm_row<Form, Pair, VECS, 128>>::run;
      if (threads == 512) return Enqueue<norm_row<Form, Pair, VECS, 512>>::run;
    }
    return nullptr;
  }
  if constexpr (VECS < MAX_VECS_PER_THREAD) return find_row_kernel<Form, Pair, 2 * VECS>(vecs, threads);
  return nullptr;
}

template <class Form, typename Pair>
cudaError_t launch_rows(const NormCall& call, const LaunchShape& shape, int vecs_per_row, float inverse_hidden,
                        const Queue& queue) {
  const auto given = make_arguments<Form, Vec<Pair>>(call);
  const int threads = shape.threads_per_row, vecs = shape.vecs_per_thread;
  if (shape.rows_per_block == 1 && threads * vecs == vecs_per_row) {
    if (const auto enqueue = find_row_kernel<Form, Pair, 1>(vecs, threads))
      return enqueue(queue, call.batch, threads, given, call.eps, 0u);
  }
  const auto enqueue = vecs == 1   ? Enqueue<norm_rows<Form, Pair, 1>>::run
                       : vecs == 2 ? Enqueue<norm_rows<Form, Pair, 2>>::run
                       : vecs == 4 ? Enqueue<norm_rows<Form, Pair, 4>>::run
                                   : Enqueue<norm_rows<Form, Pair, MAX_VECS_PER_THREAD>>::run;
  const int64_t blocks = (call.batch + shape.rows_per_block - 1) / shape.rows_per_block;
  return enqueue(queue, blocks, dim3(threads, shape.rows_per_block), given, call.batch, vecs_per_row, inverse_hidden,
                 call.eps);
}

template <class Form, typename Row>
cudaError_t launch_loop(const NormCall& call, int64_t cols, float inverse_hidden, const Queue& queue) {
  return Enqueue<norm_loop<Form, Row>>::run(queue, call.batch, MAX_THREADS, make_arguments<Form, Row>(call), cols,
                                            inverse_hidden, call.eps);
}

// Null pointers are those of tensors that the form lacks.
bool are_aligned(const NormCall& call) {
  for (const void* ptr : {call.x, call.residual, call.gate, call.weight, call.bias, static_cast<const void*>(call.out),
                          static_cast<const void*>(call.new_residual)}) {
    if (!is_aligned(ptr)) return false;
  }
  return true;
}

template <class Form, typename T, typename Pair>
cudaError_t launch_here(const NormCall& call, const Queue& queue) {
  constexpr int VEC = 16 / sizeof(T);
  const float inverse_hidden = 1.f / static_cast<float>(call.hidden);
  const int64_t vecs_per_row = call.hidden / VEC;

  if (call.hidden % VEC != 0 || !are_aligned(call))
    return launch_loop<Form, Single<T>>(call, call.hidden, inverse_hidden, queue);
  if (vecs_per_row > MAX_VECS_PER_THREAD * MAX_THREADS)
    return launch_loop<Form, Vec<Pair>>(call, vecs_per_row, inverse_hidden, queue);
  int multiprocessors = 0;
  const cudaError_t error = count_multiprocessors(queue.device, multiprocessors);
  if (error != cudaSuccess) return error;
  const int vecs = static_cast<int>(vecs_per_row);
  const LaunchShape shape =
      choose_shape(call.batch, call.hidden, sizeof(T), vecs, multiprocessors, IS_LIGHT<Form, Vec<Pair>>);
  return launch_rows<Form, Pair>(call, shape, vecs, inverse_hidden, queue);
}

// In the format of out, which matters where it is float8.
template <class Form, typename T, typename Pair>
cudaError_t launch_format(const NormCall& call, const Queue& queue) {
  if constexpr (Form::SCALE != Scale::NONE) {
    if (call.is_e5m2) return launch_here<InE5m2<Form>, T, Pair>(call, queue);
  }
  return launch_here<Form, T, Pair>(call, queue);
}

// For the functions that norm_call.h declares: rows of T, whose arithmetic takes two at a time, on any device.
template <class Form, typename T, typename Pair>
const char* launch(const NormCall& call, int device, void* stream) {
  const Queue queue{device, static_cast<cudaStream_t>(stream)};
  int before = device;
  cudaError_t error = cudaGetDevice(&before);
  if (error == cudaSuccess && before != device) error = cudaSetDevice(device);
  if (error == cudaSuccess) error = launch_format<Form, T, Pair>(call, queue);
  if (error == cudaErrorDeviceUninitialized) {  // a thread's first call: the runtime gives it a context, not the driver
    error = cudaSetDevice(device);
    if (error == cudaSuccess) error = launch_format<Form, T, Pair>(call, queue);
  }
  if (before != device) cudaSetDevice(before);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace
