#pragma once

// What a row is normalised by.

#include <cuda_runtime.h>

#include "norm_inputs.cuh"
#include "row_sum.cuh"
#include "vec.cuh"

namespace {

struct Normal {
  float mean;  // of LayerNorm
  float rstd;
  float largest;  // magnitude of x * weight, for a scale per row
};

template <typename Held>
__device__ float sum_of_squares(const Held& x) {
  float2 sum = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < Held::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    sum.x += value.x * value.x;
    sum.y += value.y * value.y;
  }
  return sum.x + sum.y;
}

template <typename Held>
__device__ float sum_of_numbers(const Held& x) {
  float2 sum = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < Held::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    sum.x += value.x;
    sum.y += value.y;
  }
  return sum.x + sum.y;
}

template <typename Held>
__device__ float sum_of_centred_squares(const Held& x, float mean) {
  float2 sum = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < Held::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    const float2 centred = {value.x - mean, value.y - mean};
    sum.x += centred.x * centred.x;
    if (Held::WIDTH == 2) sum.y += centred.y * centred.y;
  }
  return sum.x + sum.y;
}

template <class Form>
constexpr bool IS_PROPORTIONAL = Form::STATISTIC == Statistic::MEAN_SQUARE && WEIGHTED<Form> && !Form::BIAS &&
                                 Form::WEIGHT != Weight::AFTER_ROUNDING && Form::ACTIVATION == Activation::NONE;

// The largest magnitude of x * weight, or of x * (1 + weight): times rstd, it is that of the norm. So the scale of a
// row needs no reduction, and no barrier, of its own.
template <class Form, typename Held, typename Columns>
__device__ float largest_magnitude(const Held& x, const Columns& columns) {
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < Held::PAIRS; ++i) {
    const float2 value = widen(x.pairs()[i]);
    float2 by = widen(columns.weight.pairs()[i]);
    if (Form::WEIGHT == Weight::PLUS_ONE) by = {1.f + by.x, 1.f + by.y};
    largest = fmaxf(largest, fmaxf(fabsf(value.x * by.x), fabsf(value.y * by.y)));
  }
  return largest;
}

// rsqrtf is within 2 ulp of float32, thousands of times finer than the rounding of a 16-bit output.
__device__ float reciprocal_rms(float sum, float inverse_hidden, float eps) {
  return rsqrtf(sum * inverse_hidden + eps);
}

// The sum of some numbers, and that of their squared distances from their own mean. Those of two groups of equal size
// make those of both without cancellation (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
// variance"): so the mean and the variance of a row need one barrier, as a sum does.
struct Moments {
  float sum, squares;
};

template <int VECS, typename Held>
__device__ Moments own_moments(const Held (&x)[VECS]) {
  constexpr float INVERSE_COUNT = 1.f / (VECS * Held::PAIRS * Held::WIDTH);
  Moments own = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < VECS; ++i) own.sum += sum_of_numbers(x[i]);
#pragma unroll
  for (int i = 0; i < VECS; ++i) own.squares += sum_of_centred_squares(x[i], own.sum * INVERSE_COUNT);
  return own;
}

// COUNT numbers are a thread's.
template <int COUNT, int THREADS>
__device__ Moments block_moments(Moments mine) {
  constexpr int WARPS = THREADS / WARP;
  alignas(16) __shared__ Moments partials[WARPS];
#pragma unroll
  for (int lanes = 1; lanes < WARP; lanes *= 2) {
    const Moments other = {__shfl_xor_sync(0xffffffffu, mine.sum, lanes),
                           __shfl_xor_sync(0xffffffffu, mine.squares, lanes)};
    const float apart = mine.sum - other.sum;
    mine.squares += other.squares + apart * apart * (0.5f / (COUNT * lanes));
    mine.sum += other.sum;
  }
  if (threadIdx.x % WARP == 0) partials[threadIdx.x / WARP] = mine;
  __syncthreads();
  float4 two[WARPS / 2];
  Moments all = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < WARPS / 2; ++i) {
    two[i] = reinterpret_cast<const float4*>(partials)[i];
    all.sum += two[i].x + two[i].z;
    all.squares += two[i].y + two[i].w;
  }
  float2 apart = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < WARPS / 2; ++i) {
    const float2 from_mean = {two[i].x - all.sum * (1.f / WARPS), two[i].z - all.sum * (1.f / WARPS)};
    apart.x += from_mean.x * from_mean.x;
    apart.y += from_mean.y * from_mean.y;
  }
  all.squares += (apart.x + apart.y) * (1.f / (COUNT * WARP));
  return all;
}

struct SumAndLargest {
  float sum, largest;
};

template <int THREADS>
__device__ SumAndLargest block_sum_and_largest(SumAndLargest mine) {
  constexpr int WARPS = THREADS / WARP;
  alignas(16) __shared__ SumAndLargest partials[WARPS];
  mine.sum = warp_sum(mine.sum);
  // Floats of at least 0 are ordered as their bits are.
  mine.largest = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(mine.largest)));
  if (threadIdx.x % WARP == 0) partials[threadIdx.x / WARP] = mine;
  __syncthreads();
  mine = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < WARPS / 2; ++i) {
    const float4 two = reinterpret_cast<const float4*>(partials)[i];
    mine = {mine.sum + (two.x + two.z), fmaxf(mine.largest, fmaxf(two.y, two.w))};
  }
  return mine;
}

// Of a row that a block of THREADS holds, each VECS of it.
template <class Form, int THREADS, int VECS, typename Held, typename Columns>
__device__ Normal block_normal(const Held (&x)[VECS], const Columns (&columns)[VECS], float eps) {
  constexpr int COUNT = VECS * Held::PAIRS * Held::WIDTH;
  constexpr float INVERSE_HIDDEN = 1.f / (THREADS * COUNT);
  if constexpr (Form::STATISTIC == Statistic::VARIANCE) {
    const Moments all = block_moments<COUNT, THREADS>(own_moments(x));
    return {all.sum * INVERSE_HIDDEN, reciprocal_rms(all.squares, INVERSE_HIDDEN, eps), 0.f};
  }
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += sum_of_squares(x[i]);
  if constexpr (Form::SCALE == Scale::PER_ROW) {
    float largest = 0.f;
#pragma unroll
    for (int i = 0; i < VECS; ++i) largest = fmaxf(largest, largest_magnitude<Form>(x[i], columns[i]));
    const SumAndLargest all = block_sum_and_largest<THREADS>({sum, largest});
    return {0.f, reciprocal_rms(all.sum, INVERSE_HIDDEN, eps), all.largest};
  }
  return {0.f, reciprocal_rms(block_sum<THREADS>(sum), INVERSE_HIDDEN, eps), 0.f};
}

// Of rows of which each thread holds up to VECS parts, those before `cols`, and zeros.
template <class Form, int VECS, typename Held, typename Columns>
__device__ Normal rows_normal(const Held (&x)[VECS], const Columns (&columns)[VECS], int cols, float inverse_hidden,
                              float eps) {
  if constexpr (Form::STATISTIC == Statistic::VARIANCE) {
    float sum = 0.f, squares = 0.f;
#pragma unroll
    for (int i = 0; i < VECS; ++i) sum += sum_of_numbers(x[i]);
    const float mean = row_sum<0>(sum) * inverse_hidden;
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      if (static_cast<int>(threadIdx.x + i * blockDim.x) < cols) squares += sum_of_centred_squares(x[i], mean);
    }
    return {mean, reciprocal_rms(row_sum<1>(squares), inverse_hidden, eps), 0.f};
  }
  float sum = 0.f, largest = 0.f;
#pragma unroll
  for (int i = 0; i < VECS; ++i) sum += sum_of_squares(x[i]);
  const float rstd = reciprocal_rms(row_sum<0>(sum), inverse_hidden, eps);
  if constexpr (Form::SCALE == Scale::PER_ROW) {
#pragma unroll
    for (int i = 0; i < VECS; ++i) largest = fmaxf(largest, largest_magnitude<Form>(x[i], columns[i]));
    largest = row_largest<1>(largest);
  }
  return {0.f, rstd, largest};
}

// Of a row that nobody holds.
template <class Form, typename Row>
__device__ Normal loop_normal(const Arguments<Form, Row>& from, int64_t cols, float inverse_hidden, float eps) {
  float sum = 0.f, mean = 0.f, largest = 0.f;
  if constexpr (Form::STATISTIC == Statistic::VARIANCE) {
#pragma unroll 4
    for (int64_t col = threadIdx.x; col < cols; col += blockDim.x)
      sum += sum_of_numbers(add_residual(load_row(from, col, Later{})));
    mean = row_sum<1>(sum) * inverse_hidden;
    sum = 0.f;
  }
#pragma unroll 4
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const Held<Form, Row> x = add_residual(load_row(from, col, Later{}));
    if constexpr (Form::STATISTIC == Statistic::VARIANCE) {
      sum += sum_of_centred_squares(x, mean);
    } else {
      sum += sum_of_squares(x);
    }
    if constexpr (Form::SCALE == Scale::PER_ROW)
      largest = fmaxf(largest, largest_magnitude<Form>(x, load_columns(from, col, Later{})));
  }
  if constexpr (Form::SCALE == Scale::PER_ROW) largest = row_largest<1>(largest);
  return {mean, reciprocal_rms(row_sum<0>(sum), inverse_hidden, eps), largest};
}

}  // namespace
