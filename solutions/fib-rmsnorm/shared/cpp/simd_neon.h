// NEON as every aarch64 processor has it, conversions of half included.
#pragma once

#include <arm_neon.h>

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
namespace neon {

constexpr int64_t PACK = 8;

using Lanes = float32x4_t;

struct Pack {
  Lanes low, high;
};

struct FloatSums {
  float32x4_t low = vdupq_n_f32(0), high = vdupq_n_f32(0);

  SIMD_OP void AddValues(Pack x) {
    low = vaddq_f32(low, x.low);
    high = vaddq_f32(high, x.high);
  }
  SIMD_OP void AddSquares(Pack x) {
    low = vfmaq_f32(low, x.low, x.low);
    high = vfmaq_f32(high, x.high, x.high);
  }
  SIMD_OP double Total() const { return vaddvq_f32(vaddq_f32(low, high)); }
};

struct DoubleSums {
  float64x2_t sums[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};

  SIMD_OP void AddValues(Pack x) {
    sums[0] = vaddq_f64(sums[0], Low(x.low));
    sums[1] = vaddq_f64(sums[1], vcvt_high_f64_f32(x.low));
    sums[2] = vaddq_f64(sums[2], Low(x.high));
    sums[3] = vaddq_f64(sums[3], vcvt_high_f64_f32(x.high));
  }
  SIMD_OP void AddSquares(Pack x) {
    AddHalf(x.low, sums[0], sums[1]);
    AddHalf(x.high, sums[2], sums[3]);
  }
  SIMD_OP double Total() const {
    return vaddvq_f64(vaddq_f64(vaddq_f64(sums[0], sums[1]), vaddq_f64(sums[2], sums[3])));
  }

 private:
  SIMD_OP static float64x2_t Low(float32x4_t x) { return vcvt_f64_f32(vget_low_f32(x)); }
  SIMD_OP static void AddHalf(float32x4_t x, float64x2_t& low_sum, float64x2_t& high_sum) {
    const float64x2_t low = Low(x);
    const float64x2_t high = vcvt_high_f64_f32(x);
    low_sum = vfmaq_f64(low_sum, low, low);
    high_sum = vfmaq_f64(high_sum, high, high);
  }
};

// The operation on the first lanes of all packs, and on the second.
template <typename Operation, typename... Packs>
SIMD_OP Pack Each(const Operation& operation, const Packs&... packs) {
  return {operation(packs.low...), operation(packs.high...)};
}

SIMD_OP Pack Load(const float* source) { return {vld1q_f32(source), vld1q_f32(source + 4)}; }

SIMD_OP uint16x8_t LoadBits(const void* source) { return vld1q_u16(static_cast<const uint16_t*>(source)); }

SIMD_OP Pack Load(const Half* source) {
  const uint16x8_t bits = LoadBits(source);
  return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(bits))),
          vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(bits)))};
}

SIMD_OP float32x4_t WidenBFloat16(uint16x4_t bits) { return vreinterpretq_f32_u32(vshll_n_u16(bits, 16)); }

SIMD_OP Pack Load(const BFloat16* source) {
  const uint16x8_t bits = LoadBits(source);
  return {WidenBFloat16(vget_low_u16(bits)), WidenBFloat16(vget_high_u16(bits))};
}

SIMD_OP uint16x4_t NarrowHalf(float32x4_t value) { return vreinterpret_u16_f16(vcvt_f16_f32(value)); }

SIMD_OP Lanes RoundToHalf(Lanes value) { return vcvt_f32_f16(vcvt_f16_f32(value)); }

// Rounds as FromFloat does. A NaN here was made from bfloat16 values or is the processor's own, so
// its low bits are zero and the addition does not carry out of it.
SIMD_OP uint16x4_t NarrowBFloat16(float32x4_t value) { return vrshrn_n_u32(vreinterpretq_u32_f32(value), 16); }

SIMD_OP void Store(Half* target, Pack pack) {
  vst1q_u16(&target->bits, vcombine_u16(NarrowHalf(pack.low), NarrowHalf(pack.high)));
}

SIMD_OP void Store(BFloat16* target, Pack pack) {
  vst1q_u16(&target->bits, vcombine_u16(NarrowBFloat16(pack.low), NarrowBFloat16(pack.high)));
}

SIMD_OP void Store(float* target, Pack pack) {
  vst1q_f32(target, pack.low);
  vst1q_f32(target + 4, pack.high);
}

// The columns of float32 in the order of a pack of bfloat16.
SIMD_OP Pack LoadPairs(const float* source) { return Load(source); }

// No intrinsic of g++ makes a non-temporal store, and arm cores detect streams of writes.
template <typename T>
SIMD_OP void Stream(T* target, Pack pack) {
  Store(target, pack);
}

SIMD_OP void StreamFence() {}

#include "lanes.inl"
#include "rows.inl"

}  // namespace neon
}  // namespace

#undef SIMD_OP
#undef SIMD_TARGET
