#pragma once

#include "norm_form.h"

// new_residual = x + residual; out = new_residual * rsqrt(mean(new_residual^2) + eps) * weight
struct FusedAddRmsNormRounded : Form {
  static constexpr Add ADD = Add::ROUNDED;
};
using SolutionForm = FusedAddRmsNormRounded;
