#pragma once

// What the binding and the kernels agree on, without CUDA's headers and without tvm-ffi's.

#include <cstdint>

#include "form.h"

struct Gradients {
  const void* dy;             // [batch, hidden], contiguous, as x, dx and dnew_residual
  const void* dnew_residual;  // added to dx if HAS_RESIDUAL
  const void* x;
  const void* weight;  // [hidden]
  const float* mean;   // [batch], if IS_CENTERED
  const float* rstd;   // [batch]
  void* dx;
  void* dweight;   // [hidden]
  void* dbias;     // [hidden], if IS_CENTERED
  int64_t batch;   // 0 to INT32_MAX / 2: blocks are counted in 32 bits
  int64_t hidden;  // at least 1
};

constexpr int SUMS = IS_CENTERED ? 2 : 1;  // over rows: dweight, dbias
constexpr int MAX_VECS_PER_ROW = 2048;
// Rows of up to 512 vectors that a block has at once: as many as registers allow.
constexpr int ROWS_AT_ONCE = IS_CENTERED || HAS_RESIDUAL ? 2 : 3;
constexpr int ROWS_AHEAD = 2;

// How the work is spread over a device. `rows` is 0 if blocks of rows and blocks of columns each read all that they
// need. Else `blocks` blocks stay for all rows, with this number of rows at once, and keep sums, which a second kernel
// adds; the sums take `workspace` bytes. If `is_far_ahead`, rows are requested ROWS_AHEAD ahead, to shared memory. Rows
// that 16-byte vectors cannot address have no vectors for a thread.
struct Plan {
  int rows, threads_per_row, vecs_per_thread;
  int blocks;
  bool is_far_ahead;
  int64_t workspace;
};

// All return what went wrong, or null.

// Memory for what is enqueued on a stream, from the driver's pool.
const char* allocate(int64_t bytes, int device, void* stream, void*& memory);
const char* release(void* memory, int device, void* stream);

// `workspace` is memory of the device, for the stream.
const char* plan(const Gradients& call, int itemsize, int device, Plan& plan);
const char* launch_fp16(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream);
const char* launch_bf16(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream);
const char* launch_fp32(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream);
