#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps) * weight
struct RmsNorm : Form {
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNorm;
