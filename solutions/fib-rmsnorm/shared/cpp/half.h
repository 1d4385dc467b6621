// The two 16-bit float formats as storage types, with exact scalar conversions.
// Written on bits because _Float16 and __bf16 are missing from older compilers.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

constexpr uint32_t FLOAT_SIGN = 0x80000000u;
constexpr uint32_t FLOAT_INFINITY = 0x7f800000u;

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float BitsFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float ToFloat(float value) { return value; }

inline float ToFloat(BFloat16 value) { return BitsFloat(uint32_t{value.bits} << 16); }

inline float ToFloat(Half value) {
  constexpr float REBIAS = 0x1p112f;  // float's exponent bias less half's: 127 - 15
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t magnitude = (value.bits & 0x7fffu) << 13;
  // The product is exact and also turns half's subnormals into normal floats.
  const uint32_t finite = FloatBits(BitsFloat(magnitude) * REBIAS);
  const bool is_finite = (value.bits & 0x7c00u) != 0x7c00u;
  return BitsFloat(sign | (is_finite ? finite : magnitude | FLOAT_INFINITY));
}

// Rounds to nearest, to subnormals too; keeps NaN a NaN and overflows to infinity. Of two equally
// near, half takes the even one, as the processors' instructions do, and bfloat16 the larger, which
// takes one operation: a float32 result is rounded itself, so that it lies between two by exactly as
// much tells nothing about which of them is right.
template <typename T>
T FromFloat(float value);

template <>
inline float FromFloat<float>(float value) {
  return value;
}

template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  const uint32_t bits = FloatBits(value);
  const bool is_nan = (bits & ~FLOAT_SIGN) > FLOAT_INFINITY;
  const uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x8000u;
  return {static_cast<uint16_t>(rounded >> 16)};
}

template <>
inline Half FromFloat<Half>(float value) {
  constexpr uint32_t HALF_OVERFLOW = 0x47800000u;    // 2^16
  constexpr uint32_t HALF_MIN_NORMAL = 0x38800000u;  // 2^-14
  constexpr uint32_t REBIAS = (127u - 15u) << 23;
  const uint32_t bits = FloatBits(value);
  const uint32_t magnitude = bits & ~FLOAT_SIGN;
  uint32_t half;
  if (magnitude >= HALF_OVERFLOW) {
    half = magnitude > FLOAT_INFINITY ? 0x7e00u : 0x7c00u;
  } else if (magnitude < HALF_MIN_NORMAL) {
    // The last bit of 0.5f weighs 2^-24, as half's smallest subnormal: the addition rounds.
    half = FloatBits(BitsFloat(magnitude) + 0.5f) - FloatBits(0.5f);
  } else {
    half = (magnitude - REBIAS + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(((bits & FLOAT_SIGN) >> 16) | half)};
}

}  // namespace
