#pragma once

#include "norm_form.h"

// new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * weight, where s is the sum before it is rounded
struct FusedAddRmsNorm : Form {
  static constexpr Add ADD = Add::EXACT;
};
using SolutionForm = FusedAddRmsNorm;
