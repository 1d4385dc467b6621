#pragma once

// What an operator of the norm family does with a row, as compile-time parameters. A Solution's form.h derives a type
// from `Form` and overrides what differs: the type's name then stands in the names of its kernels. No CUDA in here:
// the binding includes it too.

enum class Add {
  NONE,
  EXACT,    // x + residual is normalised in float32, and rounded for the new residual
  ROUNDED,  // the sum is rounded to x's dtype first, and that is normalised
};
enum class Statistic { MEAN_SQUARE, VARIANCE };
enum class Weight {
  NONE,
  PLAIN,
  PLUS_ONE,        // 1 + weight: Gemma's
  AFTER_ROUNDING,  // the normalised row is rounded to x's dtype before: Llama's
};
enum class Activation { NONE, RELU, SILU_GATE };
enum class Scale {
  NONE,
  GIVEN,    // out is float8, of the norm divided by a scale
  PER_ROW,  // the same with a scale for each row, which is a second output
};

// RMSNorm: out = x * rsqrt(mean(x^2) + eps) * weight.
struct Form {
  static constexpr Add ADD = Add::NONE;
  static constexpr Statistic STATISTIC = Statistic::MEAN_SQUARE;
  static constexpr Weight WEIGHT = Weight::PLAIN;
  static constexpr bool BIAS = false;
  static constexpr Activation ACTIVATION = Activation::NONE;
  static constexpr Scale SCALE = Scale::NONE;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = false;  // beside an x of 16 bits: a launch_*_weight_fp32.cu serves it
  static constexpr bool FLOAT_WEIGHT = false;
  static constexpr bool E5M2 = false;  // rather than E4M3
};

template <class Base>
struct WithFloatWeight : Base {
  static constexpr bool FLOAT_WEIGHT = true;
};

template <class Base>
struct InE5m2 : Base {
  static constexpr bool E5M2 = true;
};
