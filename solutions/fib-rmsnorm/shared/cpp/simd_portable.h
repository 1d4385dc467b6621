// Plain C++ for every other processor, in short loops that compilers can vectorise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "half.h"
#include "row_task.h"

#define SIMD_TARGET

namespace {
namespace portable {

constexpr int64_t PACK = 8;

struct Pack {
  float values[PACK];
};

template <typename Sum>
struct SquareSums {
  Sum sums[PACK] = {};

  void Add(const Pack& x) {
    for (int64_t i = 0; i < PACK; ++i) sums[i] += Sum{x.values[i]} * Sum{x.values[i]};
  }
  double Total() const {
    double total = 0;
    for (Sum sum : sums) total += sum;
    return total;
  }
};

using FloatSquares = SquareSums<float>;
using DoubleSquares = SquareSums<double>;

inline Pack Scale(const Pack& x, float rstd, const Pack& weight) {
  Pack result;
  for (int64_t i = 0; i < PACK; ++i) result.values[i] = x.values[i] * rstd * weight.values[i];
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

template <typename T>
void Stream(T* target, const Pack& pack) {
  Store(target, pack);
}

inline void StreamFence() {}

#include "rows.inl"

}  // namespace portable
}  // namespace

#undef SIMD_TARGET
