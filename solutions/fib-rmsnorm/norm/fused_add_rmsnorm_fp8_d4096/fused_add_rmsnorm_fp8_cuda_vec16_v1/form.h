#pragma once

#include "norm_form.h"

// new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * weight / out_scale in float8, where s is the sum
// before it is rounded
struct FusedAddRmsNormFp8 : Form {
  static constexpr Add ADD = Add::EXACT;
  static constexpr Scale SCALE = Scale::GIVEN;
};
using SolutionForm = FusedAddRmsNormFp8;
