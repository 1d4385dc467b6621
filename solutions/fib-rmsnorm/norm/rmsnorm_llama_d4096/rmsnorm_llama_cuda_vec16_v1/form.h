#pragma once

#include "norm_form.h"

// out = weight * (x * rsqrt(mean(x^2) + eps)), where the product in brackets is rounded to x's dtype
struct RmsNormLlama : Form {
  static constexpr Weight WEIGHT = Weight::AFTER_ROUNDING;
};
using SolutionForm = RmsNormLlama;
