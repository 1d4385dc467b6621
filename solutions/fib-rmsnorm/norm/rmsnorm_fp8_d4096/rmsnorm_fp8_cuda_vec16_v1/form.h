#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps) * weight / out_scale, in float8
struct RmsNormFp8 : Form {
  static constexpr Scale SCALE = Scale::GIVEN;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNormFp8;
