#pragma once

// The gradients of a row, for a vector or for a single element: with n = (x - mean) * rstd and w = dy * weight,
// dx = (w - mean(w) - n * mean(w * n)) * rstd, and the terms of dweight and dbias are dy * n and dy. RMSNorm has no
// mean.

#include <cuda_runtime.h>

#include "form.h"
#include "vec.cuh"

namespace {

// Ties a vector to `zero`, so that what was widened of it before is not kept until here: packed, it takes half of the
// registers. `zero` is 0, which the compiler cannot know.
template <typename Pair>
__device__ void keep_packed_until(Vec<Pair>& vec, unsigned int zero) {
  vec.words = {vec.words.x ^ zero, vec.words.y ^ zero, vec.words.z ^ zero, vec.words.w ^ zero};
}

struct Statistics {
  float mean, rstd;
};

__device__ Statistics load_statistics(const float* mean, const float* rstd, int64_t row) {
  return {IS_CENTERED ? __ldg(mean + row) : 0.f, __ldg(rstd + row)};
}

// Of a row, over its columns: of w * n, and of w if IS_CENTERED.
struct RowSums {
  float of_products, of_scaled;
};

__device__ float normalize(float x, Statistics of) { return (IS_CENTERED ? x - of.mean : x) * of.rstd; }

__device__ void add_products(float x, float dy, float weight, Statistics of, RowSums& sums) {
  const float scaled = dy * weight;
  sums.of_products += scaled * normalize(x, of);
  if (IS_CENTERED) sums.of_scaled += scaled;
}

// `means` are the sums over the number of columns.
__device__ float differentiate(float x, float dy, float weight, Statistics of, RowSums means) {
  const float scaled = dy * weight;
  const float centered = IS_CENTERED ? scaled - means.of_scaled : scaled;
  return (centered - normalize(x, of) * means.of_products) * of.rstd;
}

// What one thread adds over rows for the elements of a vector, or for one element.
template <int ELEMENTS>
struct ColumnSums {
  float dweight[ELEMENTS], dbias[IS_CENTERED ? ELEMENTS : 1];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < ELEMENTS; ++i) {
      dweight[i] = 0.f;
      if (IS_CENTERED) dbias[i] = 0.f;
    }
  }
  __device__ float* of(int sum) { return sum == 0 ? dweight : dbias; }
};

template <typename Element>
struct Elements {
  static constexpr int COUNT = 1;
};

template <typename Pair>
struct Elements<Vec<Pair>> {
  static constexpr int COUNT = 2 * Vec<Pair>::PAIRS;
};

template <typename Pair>
__device__ void add_products(const Vec<Pair>& x, const Vec<Pair>& dy, const Vec<Pair>& weight, Statistics of,
                             RowSums& sums) {
#pragma unroll
  for (int i = 0; i < Vec<Pair>::PAIRS; ++i) {
    const float2 x2 = widen(x.pairs()[i]), dy2 = widen(dy.pairs()[i]), weight2 = widen(weight.pairs()[i]);
    add_products(x2.x, dy2.x, weight2.x, of, sums);
    add_products(x2.y, dy2.y, weight2.y, of, sums);
  }
}

template <typename Pair>
__device__ Vec<Pair> differentiate(const Vec<Pair>& x, const Vec<Pair>& dy, const Vec<Pair>& weight,
                                   const Vec<Pair>& added, Statistics of, RowSums means) {
  Vec<Pair> dx;
#pragma unroll
  for (int i = 0; i < Vec<Pair>::PAIRS; ++i) {
    const float2 x2 = widen(x.pairs()[i]), dy2 = widen(dy.pairs()[i]), weight2 = widen(weight.pairs()[i]);
    float2 dx2 = {differentiate(x2.x, dy2.x, weight2.x, of, means), differentiate(x2.y, dy2.y, weight2.y, of, means)};
    if (HAS_RESIDUAL) {
      const float2 added2 = widen(added.pairs()[i]);
      dx2 = {dx2.x + added2.x, dx2.y + added2.y};
    }
    narrow(dx2, dx.pairs()[i]);
  }
  return dx;
}

template <typename Pair>
__device__ void add_terms(const Vec<Pair>& x, const Vec<Pair>& dy, Statistics of,
                          ColumnSums<Elements<Vec<Pair>>::COUNT>& sums) {
#pragma unroll
  for (int i = 0; i < Vec<Pair>::PAIRS; ++i) {
    const float2 x2 = widen(x.pairs()[i]), dy2 = widen(dy.pairs()[i]);
    sums.dweight[2 * i] += dy2.x * normalize(x2.x, of);
    sums.dweight[2 * i + 1] += dy2.y * normalize(x2.y, of);
    if (IS_CENTERED) {
      sums.dbias[2 * i] += dy2.x;
      sums.dbias[2 * i + 1] += dy2.y;
    }
  }
}

// The same on a single element, for rows that 16-byte vectors cannot address.
template <typename T>
__device__ void add_products(const T& x, const T& dy, const T& weight, Statistics of, RowSums& sums) {
  add_products(static_cast<float>(x), static_cast<float>(dy), static_cast<float>(weight), of, sums);
}

template <typename T>
__device__ T differentiate(const T& x, const T& dy, const T& weight, const T& added, Statistics of, RowSums means) {
  const float dx = differentiate(static_cast<float>(x), static_cast<float>(dy), static_cast<float>(weight), of, means);
  return static_cast<T>(HAS_RESIDUAL ? dx + static_cast<float>(added) : dx);
}

template <typename T>
__device__ void add_terms(const T& x, const T& dy, Statistics of, ColumnSums<1>& sums) {
  sums.dweight[0] += static_cast<float>(dy) * normalize(static_cast<float>(x), of);
  if (IS_CENTERED) sums.dbias[0] += static_cast<float>(dy);
}

}  // namespace
