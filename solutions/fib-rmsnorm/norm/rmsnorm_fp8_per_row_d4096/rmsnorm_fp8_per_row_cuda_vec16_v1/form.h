#pragma once

#include "norm_form.h"

// y = x * rsqrt(mean(x^2) + eps) * weight; out = y / out_scale in float8, where a row's scale makes its largest
// magnitude the largest number
struct RmsNormFp8PerRow : Form {
  static constexpr Scale SCALE = Scale::PER_ROW;
  static constexpr bool MAY_HAVE_FLOAT_WEIGHT = true;
};
using SolutionForm = RmsNormFp8PerRow;
