#pragma once

// The launch: a kernel for the plan.

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.h"
#include "backward_device.cuh"
#include "backward_rows.cuh"
#include "backward_split.cuh"
#include "enqueue.cuh"

namespace {

template <typename Element>
Tensors<Element> view(const Gradients& call) {
  const auto rows = [](const void* ptr) { return static_cast<const Element*>(ptr); };
  return {rows(call.dy), rows(call.dnew_residual),      rows(call.x), rows(call.weight), call.mean,
          call.rstd,     static_cast<Element*>(call.dx)};
}

template <typename Pair>
using EnqueueRows = cudaError_t (*)(const Queue&, dim3, dim3, Tensors<Vec<Pair>>, float*, int, int, float,
                                    unsigned int);

// Launches the kernel for rows that take more shared memory than a launch gives without being asked.
template <class Rows>
struct EnqueueWithMemory {
  static cudaError_t run(const Queue& queue, dim3 grid, dim3 block, Tensors<typename Rows::Element> tensors,
                         float* partials, int batch, int cols, float inverse_hidden, unsigned int none) {
    thread_local int allowed_on = -1;
    if (allowed_on != queue.device) {
      const cudaError_t error =
          cudaFuncSetAttribute(differentiate_rows<Rows>, cudaFuncAttributeMaxDynamicSharedMemorySize, Rows::BYTES);
      if (error != cudaSuccess) return error;
      allowed_on = queue.device;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = Rows::BYTES;
    config.stream = queue.stream;
    return cudaLaunchKernelEx(&config, differentiate_rows<Rows>, tensors, partials, batch, cols, inverse_hidden, none);
  }
};

// The kernel of a plan that has rows.
template <typename Pair>
EnqueueRows<Pair> find_rows_kernel(const Plan& plan) {
  constexpr int ROWS = ROWS_AT_ONCE;
  const int vecs = plan.vecs_per_thread;
  if constexpr (IS_CENTERED) {
    if (plan.is_far_ahead) return EnqueueWithMemory<RowsInSharedMemory<Pair, 2, 256, ROWS, ROWS_AHEAD>>::run;
  }
  if (plan.threads_per_row == 256) {
    if constexpr (!HAS_RESIDUAL) {
      if (vecs == 2) return Enqueue<differentiate_rows<RowsInRegisters<Pair, 2, 256, ROWS>>>::run;
    }
    return Enqueue<differentiate_rows<RowsInRegisters<Pair, 1, 256, ROWS>>>::run;
  }
  if constexpr (HAS_RESIDUAL) {  // the others' rows of 512 vectors are shared by 256 threads
    if (vecs == 1) return Enqueue<differentiate_rows<RowsInRegisters<Pair, 1, 512, ROWS>>>::run;
  }
  if (vecs == 2) return Enqueue<differentiate_rows<RowsInRegisters<Pair, 2, 512, 1>>>::run;
  return Enqueue<differentiate_rows<RowsInRegisters<Pair, 4, 512, 1>>>::run;
}

// Launches the sum of the partial sums so that it may be on its way while the blocks before it end: on GPUs that can.
template <typename T>
cudaError_t enqueue_sum(const Gradients& call, const Plan& plan, const float* workspace, const Queue& queue) {
  thread_local int asked = -1, major = 0;
  if (asked != queue.device) {
    const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, queue.device);
    if (error != cudaSuccess) return error;
    asked = queue.device;
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const int vecs = static_cast<int>(call.hidden / 4);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((vecs + ADD_COLS - 1) / ADD_COLS, SUMS);
  config.blockDim = dim3(ADD_COLS, ADD_LANES);
  config.stream = queue.stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, add_partials<T>, reinterpret_cast<const float4*>(workspace),
                            static_cast<T*>(call.dweight), static_cast<T*>(call.dbias), plan.blocks, vecs);
}

template <typename Element, typename T, typename Enqueue, typename... More>
cudaError_t enqueue_split(const Gradients& call, const Queue& queue, Enqueue enqueue, More... more) {
  const int64_t cols = call.hidden / Elements<Element>::COUNT;
  const unsigned int column_blocks = (cols + SPLIT_COLS<Element> - 1) / SPLIT_COLS<Element>;
  const unsigned int blocks = column_blocks + static_cast<unsigned int>(call.batch);
  return enqueue(queue, blocks, SPLIT_THREADS, view<Element>(call), static_cast<T*>(call.dweight),
                 static_cast<T*>(call.dbias), static_cast<int>(call.batch), cols, 1.f / static_cast<float>(call.hidden),
                 column_blocks, more...);
}

template <typename T, typename Pair>
cudaError_t launch_here(const Gradients& call, const Plan& plan, float* workspace, const Queue& queue) {
  using Element = Vec<Pair>;
  const int64_t vecs = call.hidden / Elements<Element>::COUNT;
  if (plan.vecs_per_thread == 0) return enqueue_split<T, T>(call, queue, Enqueue<differentiate_loop<T, T>>::run);
  if (plan.rows == 0) {
    if (vecs <= SPLIT_THREADS)
      return enqueue_split<Element, T>(call, queue, Enqueue<differentiate_split<Pair, T, 1>>::run, 0u);
    if (vecs <= 2 * SPLIT_THREADS)
      return enqueue_split<Element, T>(call, queue, Enqueue<differentiate_split<Pair, T, 2>>::run, 0u);
    if (vecs <= 4 * SPLIT_THREADS)
      return enqueue_split<Element, T>(call, queue, Enqueue<differentiate_split<Pair, T, 4>>::run, 0u);
    return enqueue_split<Element, T>(call, queue, Enqueue<differentiate_loop<Element, T>>::run);
  }
  const auto enqueue = find_rows_kernel<Pair>(plan);
  const cudaError_t error =
      enqueue(queue, plan.blocks, dim3(plan.threads_per_row, plan.rows), view<Element>(call), workspace,
              static_cast<int>(call.batch), static_cast<int>(vecs), 1.f / static_cast<float>(call.hidden), 0u);
  return error == cudaSuccess ? enqueue_sum<T>(call, plan, workspace, queue) : error;
}

// For the functions that backward.h declares: rows of T, whose arithmetic takes two at a time, on any device.
template <typename T, typename Pair>
const char* launch(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream) {
  const Queue queue{device, static_cast<cudaStream_t>(stream)};
  return run_on(device, [&] { return launch_here<T, Pair>(call, plan, workspace, queue); });
}

}  // namespace
