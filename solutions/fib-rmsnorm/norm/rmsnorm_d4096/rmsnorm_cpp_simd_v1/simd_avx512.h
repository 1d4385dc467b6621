// AVX-512 F and BW: Skylake-SP, Zen 4 and later.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <type_traits>

#include "half.h"
#include "row_task.h"

#define SIMD_TARGET __attribute__((target("avx512f,avx512bw")))
#define SIMD_OP inline __attribute__((always_inline)) SIMD_TARGET

namespace {
namespace avx512 {

constexpr int64_t PACK = 32;

struct Pack {
  __m512 low, high;
};

struct FloatSquares {
  __m512 low = __m512(), high = __m512();

  SIMD_OP void Add(Pack x) {
    low = _mm512_fmadd_ps(x.low, x.low, low);
    high = _mm512_fmadd_ps(x.high, x.high, high);
  }
  SIMD_OP double Total() const { return _mm512_reduce_add_ps(_mm512_add_ps(low, high)); }
};

struct DoubleSquares {
  __m512d sums[4] = {};

  SIMD_OP void Add(Pack x) {
    AddHalf(x.low, sums[0], sums[1]);
    AddHalf(x.high, sums[2], sums[3]);
  }
  SIMD_OP double Total() const {
    return _mm512_reduce_add_pd(
        _mm512_add_pd(_mm512_add_pd(sums[0], sums[1]), _mm512_add_pd(sums[2], sums[3])));
  }

 private:
  SIMD_OP static void AddHalf(__m512 x, __m512d& low_sum, __m512d& high_sum) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d high = _mm512_cvtps_pd(
        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
    low_sum = _mm512_fmadd_pd(low, low, low_sum);
    high_sum = _mm512_fmadd_pd(high, high, high_sum);
  }
};

SIMD_OP Pack Scale(Pack x, float rstd, Pack weight) {
  const __m512 factor = _mm512_set1_ps(rstd);
  return {_mm512_mul_ps(_mm512_mul_ps(x.low, factor), weight.low),
          _mm512_mul_ps(_mm512_mul_ps(x.high, factor), weight.high)};
}

SIMD_OP Pack Load(const float* source) {
  return {_mm512_loadu_ps(source), _mm512_loadu_ps(source + 16)};
}

SIMD_OP __m256i LoadBits(const void* source) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(source));
}

SIMD_OP Pack Load(const Half* source) {
  return {_mm512_cvtph_ps(LoadBits(source)), _mm512_cvtph_ps(LoadBits(source + 16))};
}

SIMD_OP __m512 WidenBFloat16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

SIMD_OP Pack Load(const BFloat16* source) {
  return {WidenBFloat16(LoadBits(source)), WidenBFloat16(LoadBits(source + 16))};
}

SIMD_OP __m512i Narrow(const Half*, Pack pack) {
  const __m256i low = _mm512_cvtps_ph(pack.low, _MM_FROUND_TO_NEAREST_INT);
  const __m256i high = _mm512_cvtps_ph(pack.high, _MM_FROUND_TO_NEAREST_INT);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// To nearest even. A NaN here was made from bfloat16 values or is the processor's own, so its
// low bits are zero and the addition does not carry out of it. (vcvtneps2bf16 would flush
// subnormals to zero.)
SIMD_OP __m512i RoundBFloat16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
  return _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
}

SIMD_OP __m512i Narrow(const BFloat16*, Pack pack) {
  // packus works within 128-bit lanes; the permutation restores the order of columns.
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(
      order, _mm512_packus_epi32(RoundBFloat16(pack.low), RoundBFloat16(pack.high)));
}

template <typename T>
SIMD_OP void Store(T* target, Pack pack) {
  _mm512_storeu_si512(target, Narrow(target, pack));
}

SIMD_OP void Store(float* target, Pack pack) {
  _mm512_storeu_ps(target, pack.low);
  _mm512_storeu_ps(target + 16, pack.high);
}

template <typename T>
SIMD_OP void Stream(T* target, Pack pack) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(target), Narrow(target, pack));
}

SIMD_OP void Stream(float* target, Pack pack) {
  _mm512_stream_ps(target, pack.low);
  _mm512_stream_ps(target + 16, pack.high);
}

SIMD_OP void StreamFence() { _mm_sfence(); }

#include "rows.inl"

}  // namespace avx512
}  // namespace

#undef SIMD_OP
#undef SIMD_TARGET
