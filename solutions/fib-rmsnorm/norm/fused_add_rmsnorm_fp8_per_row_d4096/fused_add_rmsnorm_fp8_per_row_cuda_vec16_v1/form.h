#pragma once

#include "norm_form.h"

// new_residual = x + residual; y = s * rsqrt(mean(s^2) + eps) * weight, where s is the sum before it is rounded; out =
// y / out_scale in float8, where a row's scale makes its largest magnitude the largest number
struct FusedAddRmsNormFp8PerRow : Form {
  static constexpr Add ADD = Add::EXACT;
  static constexpr Scale SCALE = Scale::PER_ROW;
};
using SolutionForm = FusedAddRmsNormFp8PerRow;
