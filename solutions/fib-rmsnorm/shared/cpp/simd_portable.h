// Plain C++ for every other processor, in short loops that compilers can vectorise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "half.h"
#include "norm_form.h"
#include "row_task.h"

#define SIMD_TARGET
#define SIMD_OP inline __attribute__((always_inline))

namespace {
namespace portable {

constexpr int64_t PACK = 8;

using Lanes = float;

struct Pack {
  Lanes values[PACK];
};

template <typename Number>
struct PackSums {
  Number sums[PACK] = {};

  void AddValues(const Pack& x) {
    for (int64_t i = 0; i < PACK; ++i) sums[i] += Number{x.values[i]};
  }
  void AddSquares(const Pack& x) {
    for (int64_t i = 0; i < PACK; ++i) sums[i] += Number{x.values[i]} * Number{x.values[i]};
  }
  double Total() const {
    double total = 0;
    for (Number sum : sums) total += sum;
    return total;
  }
};

using FloatSums = PackSums<float>;
using DoubleSums = PackSums<double>;

template <typename Operation, typename... Packs>
Pack Each(const Operation& operation, const Packs&... packs) {
  Pack result;
  for (int64_t i = 0; i < PACK; ++i) result.values[i] = operation(packs.values[i]...);
  return result;
}

template <typename T>
Pack Load(const T* source) {
  Pack pack;
  for (int64_t i = 0; i < PACK; ++i) pack.values[i] = ToFloat(source[i]);
  return pack;
}

template <typename T>
void Store(T* target, const Pack& pack) {
  for (int64_t i = 0; i < PACK; ++i) target[i] = FromFloat<T>(pack.values[i]);
}

// The columns of float32 in the order of a pack of bfloat16.
SIMD_OP Pack LoadPairs(const float* source) { return Load(source); }

template <typename T>
void Stream(T* target, const Pack& pack) {
  Store(target, pack);
}

inline void StreamFence() {}

#include "lanes.inl"
#include "rows.inl"

}  // namespace portable
}  // namespace

#undef SIMD_OP
#undef SIMD_TARGET
