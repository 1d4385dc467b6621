// What a norm does with each row, chosen when it is compiled: a Solution derives its Form from one of these.
#pragma once

namespace {

enum class Weight {
  NONE,
  PLAIN,
  ONE_PLUS,       // the factor is 1 + weight, as in Gemma
  AFTER_ROUNDING  // the row is rounded to the dtype of x before the weight, as in Llama
};

enum class Activation {
  NONE,
  RELU,
  SILU_GATE  // times silu(gate), silu(g) = g / (1 + exp(-g))
};

struct RmsNormForm {
  static constexpr bool ADD = false;      // a residual is added first, and the sum, rounded, is a second output
  static constexpr bool CENTRED = false;  // the mean is subtracted: LayerNorm
  static constexpr Weight WEIGHT = Weight::PLAIN;
  static constexpr bool BIAS = false;
  static constexpr Activation ACTIVATION = Activation::NONE;
};

struct LayerNormForm : RmsNormForm {
  static constexpr bool CENTRED = true;
};

}  // namespace
