#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate)
struct RmsNormSiluGate : Form {
  static constexpr Activation ACTIVATION = Activation::SILU_GATE;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNormSiluGate;
