#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps) * weight + bias
struct RmsNormBias : Form {
  static constexpr bool BIAS = true;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNormBias;
