// AVX-512 F and BW: Skylake-SP, Zen 4 and later.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "half.h"
#include "norm_form.h"
#include "row_task.h"

#define SIMD_TARGET __attribute__((target("avx512f,avx512bw")))
#define SIMD_OP inline __attribute__((always_inline)) SIMD_TARGET

namespace {
namespace avx512 {

constexpr int64_t PACK = 32;
constexpr int ODD_COLUMN = static_cast<int>(0xffff0000u);

using Lanes = __m512;

struct Pack {
  Lanes low, high;
};

struct FloatSums {
  __m512 low = __m512(), high = __m512();

  SIMD_OP void AddValues(Pack x) {
    low = _mm512_add_ps(low, x.low);
    high = _mm512_add_ps(high, x.high);
  }
  SIMD_OP void AddSquares(Pack x) {
    low = _mm512_fmadd_ps(x.low, x.low, low);
    high = _mm512_fmadd_ps(x.high, x.high, high);
  }
  SIMD_OP double Total() const { return _mm512_reduce_add_ps(_mm512_add_ps(low, high)); }
};

struct DoubleSums {
  __m512d sums[4] = {};

  SIMD_OP void AddValues(Pack x) {
    sums[0] = _mm512_add_pd(sums[0], Low(x.low));
    sums[1] = _mm512_add_pd(sums[1], High(x.low));
    sums[2] = _mm512_add_pd(sums[2], Low(x.high));
    sums[3] = _mm512_add_pd(sums[3], High(x.high));
  }
  SIMD_OP void AddSquares(Pack x) {
    AddHalf(x.low, sums[0], sums[1]);
    AddHalf(x.high, sums[2], sums[3]);
  }
  SIMD_OP double Total() const {
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(sums[0], sums[1]), _mm512_add_pd(sums[2], sums[3])));
  }

 private:
  SIMD_OP static __m512d Low(__m512 x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
  SIMD_OP static __m512d High(__m512 x) {
    return _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
  }
  SIMD_OP static void AddHalf(__m512 x, __m512d& low_sum, __m512d& high_sum) {
    const __m512d low = Low(x), high = High(x);
    low_sum = _mm512_fmadd_pd(low, low, low_sum);
    high_sum = _mm512_fmadd_pd(high, high, high_sum);
  }
};

// The operation on the first lanes of all packs, and on the second.
template <typename Operation, typename... Packs>
SIMD_OP Pack Each(const Operation& operation, const Packs&... packs) {
  return {operation(packs.low...), operation(packs.high...)};
}

SIMD_OP Pack Load(const float* source) { return {_mm512_loadu_ps(source), _mm512_loadu_ps(source + 16)}; }

SIMD_OP __m256i LoadBits(const void* source) { return _mm256_loadu_si256(static_cast<const __m256i*>(source)); }

SIMD_OP Pack Load(const Half* source) {
  return {_mm512_cvtph_ps(LoadBits(source)), _mm512_cvtph_ps(LoadBits(source + 16))};
}

// The columns of a pair lie in one 32-bit lane, the even one in its lower half: a shift or a mask
// widens 16 of them, so low holds the even columns and high the odd ones. (1.3 times as fast as
// columns in order, which have to be moved between lanes.)
SIMD_OP Pack Load(const BFloat16* source) {
  __m512i pairs = _mm512_loadu_si512(source);
  asm("" : "+v"(pairs));  // loaded once: g++ would load it for the shift and again for the mask
  const __m512i odd = _mm512_and_si512(pairs, _mm512_set1_epi32(ODD_COLUMN));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), _mm512_castsi512_ps(odd)};
}

// The even columns of float32 and the odd ones, to go with a pack of bfloat16.
SIMD_OP Pack LoadPairs(const float* source) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  const Pack in_order = Load(source);
  return {_mm512_permutex2var_ps(in_order.low, even, in_order.high),
          _mm512_permutex2var_ps(in_order.low, odd, in_order.high)};
}

SIMD_OP __m256i NarrowHalf(__m512 value) { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }

// Rounds as FromFloat does. A NaN here was made from bfloat16 values or is the processor's own, so
// its low bits are zero and the addition does not carry out of it. (vcvtneps2bf16 would flush
// subnormals to zero.)
SIMD_OP __m512i RoundBFloat16(__m512 value) {
  return _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000));
}

SIMD_OP __m512i NarrowBFloat16(Pack pack) {
  const __m512i even = _mm512_srli_epi32(RoundBFloat16(pack.low), 16);
  return _mm512_mask_blend_epi16(0xaaaaaaaau, even, RoundBFloat16(pack.high));
}

// Half by half a line, which spares an operation to join them.
SIMD_OP void Store(Half* target, Pack pack) {
  __m256i* const halves = reinterpret_cast<__m256i*>(target);
  _mm256_storeu_si256(halves, NarrowHalf(pack.low));
  _mm256_storeu_si256(halves + 1, NarrowHalf(pack.high));
}

SIMD_OP void Store(BFloat16* target, Pack pack) { _mm512_storeu_si512(target, NarrowBFloat16(pack)); }

SIMD_OP Lanes RoundToHalf(Lanes value) { return _mm512_cvtph_ps(NarrowHalf(value)); }

SIMD_OP void Store(float* target, Pack pack) {
  _mm512_storeu_ps(target, pack.low);
  _mm512_storeu_ps(target + 16, pack.high);
}

SIMD_OP void Stream(Half* target, Pack pack) {
  __m256i* const halves = reinterpret_cast<__m256i*>(target);
  _mm256_stream_si256(halves, NarrowHalf(pack.low));
  _mm256_stream_si256(halves + 1, NarrowHalf(pack.high));
}

SIMD_OP void Stream(BFloat16* target, Pack pack) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(target), NarrowBFloat16(pack));
}

SIMD_OP void Stream(float* target, Pack pack) {
  _mm512_stream_ps(target, pack.low);
  _mm512_stream_ps(target + 16, pack.high);
}

SIMD_OP void StreamFence() { _mm_sfence(); }

#include "lanes.inl"
#include "rows.inl"

}  // namespace avx512
}  // namespace

#undef SIMD_OP
#undef SIMD_TARGET
