#pragma once

// The kernels of the norm family for fp16, bf16 and fp32: float32 arithmetic, rounded once.
//
// A memory-bound operator is fast when its bytes are requested early, and once. Each thread loads its part of
// the row as 16-byte vectors and keeps it in registers until the row's sum is known, so x is read once; the
// weight is requested before anything waits for x. Where the threads of a row are known to the compiler, the way
// to the first load and through the reduction is short. What each of this gave is in docs/kernels.md.

#include <cuda_runtime.h>

#include <cstdint>

#include "norm_arguments.cuh"
#include "norm_epilogue.cuh"
#include "norm_inputs.cuh"
#include "norm_statistic.cuh"
#include "row_sum.cuh"
#include "vec.cuh"

namespace {

// The 32-bit words that a thread holds for each vector of its row until the row's sum is known.
template <class Form, typename Row>
constexpr int WORDS = (sizeof(Held<Form, Row>) + (GATED<Form> ? sizeof(Row) : 0) +
                       (WEIGHTED<Form> + Form::BIAS) * sizeof(Column<Form, Row>)) /
                      4;

// Whether four vectors a thread leave registers for many threads.
constexpr int LIGHT_WORDS = 8;
template <class Form, typename Row>
constexpr bool IS_LIGHT = WORDS<Form, Row> <= LIGHT_WORDS;

// Rows of 8192 elements take four vectors a thread, and 512 of them fit an H200 at once only if 64 registers suffice.
// So do rows of 4096 with a gate, of which a thread has two. Elsewhere registers matter less than early loads: to ask
// for one block per multiprocessor says so.
constexpr int TIGHT_VECS = 4;
constexpr int TIGHT_THREADS = 1024;  // of a multiprocessor

template <class Form, typename Row, int VECS>
constexpr bool TIGHT =
    GATED<Form> ? VECS == 2 : VECS == TIGHT_VECS && IS_LIGHT<Form, Row> && Form::STATISTIC == Statistic::MEAN_SQUARE;

template <class Form, typename Row, int VECS, int THREADS>
constexpr int LEAST_BLOCKS = TIGHT<Form, Row, VECS> ? TIGHT_THREADS / THREADS : 1;

// 512 threads can have 128 registers each. What does not fit them is read when it is needed. A variance, and a sum that
// is not rounded, take registers of their own.
template <class Form>
constexpr bool IS_WIDE = Form::STATISTIC == Statistic::VARIANCE || Form::ADD == Add::EXACT;
template <class Form>
constexpr int MOST_WORDS = IS_WIDE<Form> ? 64 : 96;
template <class Form, typename Row, int VECS>
constexpr bool HOLDS_COLUMNS = VECS * WORDS<Form, Row> <= MOST_WORDS<Form> || Form::SCALE == Scale::PER_ROW;

template <class Form, int VECS>
constexpr bool KEEPS_PACKED = Form::ADD != Add::EXACT && VECS > (Form::STATISTIC == Statistic::VARIANCE ? 2 : 4);

// One row for a block of THREADS, which hold VECS vectors each: the row is exactly as long.
template <class Form, typename Pair, int VECS, int THREADS>
__global__ void __launch_bounds__(THREADS, (LEAST_BLOCKS<Form, Vec<Pair>, VECS, THREADS>))
    norm_row(const Arguments<Form, Vec<Pair>> given, float eps, unsigned int none) {
  using Row = Vec<Pair>;
  const int64_t thread = threadIdx.x, first = static_cast<int64_t>(blockIdx.x) * (THREADS * VECS) + thread;

  RowInputs<Form, Row> inputs[VECS];
  ColumnInputs<Form, Row> columns[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) inputs[i] = load_row(given, first + i * THREADS, Now{});
  if constexpr (HOLDS_COLUMNS<Form, Row, VECS>) {
#pragma unroll
    for (int i = 0; i < VECS; ++i) columns[i] = load_columns(given, thread + i * THREADS, Now{});
  }
  const float scale = given_scale(given);
  if constexpr (TIGHT<Form, Row, VECS> && WEIGHTED<Form>) {
#pragma unroll
    for (int i = 0; i < VECS; ++i) arrive_with(inputs[i].x, columns[i].weight, none);
  }

  Held<Form, Row> x[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    x[i] = add_residual(inputs[i]);
    if constexpr (ADDS<Form>) given.new_residual[first + i * THREADS] = round_sum(x[i]);
  }
  const Normal normal = block_normal<Form, THREADS>(x, columns, eps);
  if constexpr (Form::SCALE == Scale::PER_ROW) {
    if (threadIdx.x == 0) given.row_scales[blockIdx.x] = row_scale<Form>(normal);
  }
  const float factor = final_factor<Form>(normal, scale);

#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if constexpr (KEEPS_PACKED<Form, VECS>) keep_packed(x[i], normal.rstd);
    if constexpr (!HOLDS_COLUMNS<Form, Row, VECS>) columns[i] = load_columns(given, thread + i * THREADS, Later{});
    given.out[first + i * THREADS] = finish(x[i], inputs[i], columns[i], normal.mean, factor);
  }
}

// Rows of any length: blockDim = (threads per row, rows per block). Each thread holds up to VECS vectors of its row.
template <class Form, typename Pair, int VECS>
__global__ void __launch_bounds__(MAX_THREADS) norm_rows(const Arguments<Form, Vec<Pair>> given, int64_t batch,
                                                         int vecs_per_row, float inverse_hidden, float eps) {
  using Row = Vec<Pair>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int cols = row < batch ? vecs_per_row : 0;  // past the last row: load nothing, but reach the barrier
  const Arguments<Form, Row> here = move_on(given, row * vecs_per_row);

  RowInputs<Form, Row> inputs[VECS];
  ColumnInputs<Form, Row> columns[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    inputs[i] = {};
    if (col < cols) inputs[i] = load_row(here, col, Now{});
  }
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    if constexpr (Form::SCALE == Scale::PER_ROW) columns[i] = {};
    if (HOLDS_COLUMNS<Form, Row, VECS> && col < cols) columns[i] = load_columns(here, col, Now{});
  }
  const float scale = given_scale(given);

  Held<Form, Row> x[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    x[i] = add_residual(inputs[i]);
    const int col = threadIdx.x + i * blockDim.x;
    if constexpr (ADDS<Form>) {
      if (col < cols) here.new_residual[col] = round_sum(x[i]);
    }
  }
  const Normal normal = rows_normal<Form>(x, columns, cols, inverse_hidden, eps);
  if constexpr (Form::SCALE == Scale::PER_ROW) {
    if (threadIdx.x == 0 && cols > 0) given.row_scales[row] = row_scale<Form>(normal);
  }
  const float factor = final_factor<Form>(normal, scale);

#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    if constexpr (KEEPS_PACKED<Form, VECS>) keep_packed(x[i], normal.rstd);
    const int col = threadIdx.x + i * blockDim.x;
    if (col < cols) {
      if constexpr (!HOLDS_COLUMNS<Form, Row, VECS>) columns[i] = load_columns(here, col, Later{});
      here.out[col] = finish(x[i], inputs[i], columns[i], normal.mean, factor);
    }
  }
}

// One row per block, read again for each sum and for the output: rows too long for registers, and rows that are not
// made of 16-byte vectors (Row is then a single number).
template <class Form, typename Row>
__global__ void __launch_bounds__(MAX_THREADS)
    norm_loop(const Arguments<Form, Row> given, int64_t cols, float inverse_hidden, float eps) {
  const Arguments<Form, Row> here = move_on(given, blockIdx.x * cols);
  const float scale = given_scale(given);
  const Normal normal = loop_normal(here, cols, inverse_hidden, eps);
  if constexpr (Form::SCALE == Scale::PER_ROW) {
    if (threadIdx.x == 0) given.row_scales[blockIdx.x] = row_scale<Form>(normal);
  }
  const float factor = final_factor<Form>(normal, scale);
#pragma unroll 4
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const RowInputs<Form, Row> inputs = load_row(here, col, Later{});
    const Held<Form, Row> x = add_residual(inputs);
    if constexpr (ADDS<Form>) here.new_residual[col] = round_sum(x);
    here.out[col] = finish(x, inputs, load_columns(here, col, Later{}), normal.mean, factor);
  }
}

}  // namespace
