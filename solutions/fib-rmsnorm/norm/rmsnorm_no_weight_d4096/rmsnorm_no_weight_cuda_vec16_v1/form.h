#pragma once

#include "norm_form.h"

// out = x * rsqrt(mean(x^2) + eps)
struct RmsNormNoWeight : Form {
  static constexpr Weight WEIGHT = Weight::NONE;
};
using SolutionForm = RmsNormNoWeight;
