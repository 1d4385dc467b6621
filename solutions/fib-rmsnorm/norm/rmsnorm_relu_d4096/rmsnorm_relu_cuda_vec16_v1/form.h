#pragma once

#include "norm_form.h"

// out = max(x * rsqrt(mean(x^2) + eps) * weight, 0)
struct RmsNormRelu : Form {
  static constexpr Activation ACTIVATION = Activation::RELU;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNormRelu;
