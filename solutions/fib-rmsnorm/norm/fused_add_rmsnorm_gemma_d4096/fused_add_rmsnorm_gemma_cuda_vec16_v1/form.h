#pragma once

#include "norm_form.h"

// new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * (1 + weight), where s is the sum before it is rounded
struct FusedAddRmsNormGemma : Form {
  static constexpr Add ADD = Add::EXACT;
  static constexpr Weight WEIGHT = Weight::PLUS_ONE;
};
using SolutionForm = FusedAddRmsNormGemma;
