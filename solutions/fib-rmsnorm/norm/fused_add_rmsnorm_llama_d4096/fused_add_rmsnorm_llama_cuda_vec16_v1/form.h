#pragma once

#include "norm_form.h"

// new_residual = x + residual; out = weight * (new_residual * rsqrt(mean(new_residual^2) + eps)), where the product in
// brackets is rounded to x's dtype
struct FusedAddRmsNormLlama : Form {
  static constexpr Add ADD = Add::ROUNDED;
  static constexpr Weight WEIGHT = Weight::AFTER_ROUNDING;
};
using SolutionForm = FusedAddRmsNormLlama;
