// AVX2 with FMA and F16C: Haswell, Zen and later.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "half.h"
#include "norm_form.h"
#include "row_task.h"

#define SIMD_TARGET __attribute__((target("avx2,fma,f16c")))
#define SIMD_OP inline __attribute__((always_inline)) SIMD_TARGET

namespace {
namespace avx2 {

constexpr int64_t PACK = 16;
constexpr int ODD_COLUMN = static_cast<int>(0xffff0000u);

using Lanes = __m256;

struct Pack {
  Lanes low, high;
};

struct DoubleSums {
  __m256d sums[4] = {};

  SIMD_OP void AddValues(Pack x) {
    sums[0] = _mm256_add_pd(sums[0], Low(x.low));
    sums[1] = _mm256_add_pd(sums[1], High(x.low));
    sums[2] = _mm256_add_pd(sums[2], Low(x.high));
    sums[3] = _mm256_add_pd(sums[3], High(x.high));
  }
  SIMD_OP void AddSquares(Pack x) {
    AddHalf(x.low, sums[0], sums[1]);
    AddHalf(x.high, sums[2], sums[3]);
  }
  SIMD_OP double Total() const {
    const __m256d sum = _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3]));
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }

  SIMD_OP static __m256d Low(__m256 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
  SIMD_OP static __m256d High(__m256 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

 private:
  SIMD_OP static void AddHalf(__m256 x, __m256d& low_sum, __m256d& high_sum) {
    low_sum = _mm256_fmadd_pd(Low(x), Low(x), low_sum);
    high_sum = _mm256_fmadd_pd(High(x), High(x), high_sum);
  }
};

struct FloatSums {
  __m256 low = __m256(), high = __m256();

  SIMD_OP void AddValues(Pack x) {
    low = _mm256_add_ps(low, x.low);
    high = _mm256_add_ps(high, x.high);
  }
  SIMD_OP void AddSquares(Pack x) {
    low = _mm256_fmadd_ps(x.low, x.low, low);
    high = _mm256_fmadd_ps(x.high, x.high, high);
  }
  SIMD_OP double Total() const {
    const __m256 sum = _mm256_add_ps(low, high);
    DoubleSums total;
    total.sums[0] = DoubleSums::Low(sum);
    total.sums[1] = DoubleSums::High(sum);
    return total.Total();
  }
};

// The operation on the first lanes of all packs, and on the second.
template <typename Operation, typename... Packs>
SIMD_OP Pack Each(const Operation& operation, const Packs&... packs) {
  return {operation(packs.low...), operation(packs.high...)};
}

SIMD_OP Pack Load(const float* source) { return {_mm256_loadu_ps(source), _mm256_loadu_ps(source + 8)}; }

SIMD_OP __m128i LoadBits(const void* source) { return _mm_loadu_si128(static_cast<const __m128i*>(source)); }

SIMD_OP Pack Load(const Half* source) {
  return {_mm256_cvtph_ps(LoadBits(source)), _mm256_cvtph_ps(LoadBits(source + 8))};
}

// The columns of a pair lie in one 32-bit lane, the even one in its lower half: a shift or a mask
// widens 8 of them, so low holds the even columns and high the odd ones. (1.3 times as fast as
// columns in order, which have to be moved between lanes.)
SIMD_OP Pack Load(const BFloat16* source) {
  __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
  asm("" : "+x"(pairs));  // loaded once: g++ would load it for the shift and again for the mask
  const __m256i odd = _mm256_and_si256(pairs, _mm256_set1_epi32(ODD_COLUMN));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), _mm256_castsi256_ps(odd)};
}

// Of each half of both vectors, the columns of an operand of shuffle_ps, and then the halves in order.
template <int COLUMNS>
SIMD_OP __m256 Gather(Pack in_order) {
  const __m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(in_order.low, in_order.high, COLUMNS));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, _MM_SHUFFLE(3, 1, 2, 0)));
}

// The even columns of float32 and the odd ones, to go with a pack of bfloat16.
SIMD_OP Pack LoadPairs(const float* source) {
  const Pack in_order = Load(source);
  return {Gather<_MM_SHUFFLE(2, 0, 2, 0)>(in_order), Gather<_MM_SHUFFLE(3, 1, 3, 1)>(in_order)};
}

SIMD_OP Lanes RoundToHalf(Lanes value) { return _mm256_cvtph_ps(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT)); }

SIMD_OP __m256i Narrow(const Half*, Pack pack) {
  const __m128i low = _mm256_cvtps_ph(pack.low, _MM_FROUND_TO_NEAREST_INT);
  const __m128i high = _mm256_cvtps_ph(pack.high, _MM_FROUND_TO_NEAREST_INT);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// Rounds as FromFloat does. A NaN here was made from bfloat16 values or is the processor's own, so
// its low bits are zero and the addition does not carry out of it.
SIMD_OP __m256i RoundBFloat16(__m256 value) {
  return _mm256_add_epi32(_mm256_castps_si256(value), _mm256_set1_epi32(0x8000));
}

SIMD_OP __m256i Narrow(const BFloat16*, Pack pack) {
  const __m256i even = _mm256_srli_epi32(RoundBFloat16(pack.low), 16);
  return _mm256_blend_epi16(even, RoundBFloat16(pack.high), 0xaa);
}

template <typename T>
SIMD_OP void Store(T* target, Pack pack) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), Narrow(target, pack));
}

SIMD_OP void Store(float* target, Pack pack) {
  _mm256_storeu_ps(target, pack.low);
  _mm256_storeu_ps(target + 8, pack.high);
}

template <typename T>
SIMD_OP void Stream(T* target, Pack pack) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(target), Narrow(target, pack));
}

SIMD_OP void Stream(float* target, Pack pack) {
  _mm256_stream_ps(target, pack.low);
  _mm256_stream_ps(target + 8, pack.high);
}

SIMD_OP void StreamFence() { _mm_sfence(); }

#include "lanes.inl"
#include "rows.inl"

}  // namespace avx2
}  // namespace

#undef SIMD_OP
#undef SIMD_TARGET
