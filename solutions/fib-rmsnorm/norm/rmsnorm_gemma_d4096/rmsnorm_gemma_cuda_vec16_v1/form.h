#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps) * (1 + weight)
struct RmsNormGemma : Form {
  static constexpr Weight WEIGHT = Weight::PLUS_ONE;
};
using SolutionForm = RmsNormGemma;
