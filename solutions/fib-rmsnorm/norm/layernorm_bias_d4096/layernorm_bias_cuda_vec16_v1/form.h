#pragma once

#include "norm_form.h"

// out = (x - mean(x)) * rsqrt(var(x) + eps) * weight + bias
struct LayerNormBias : Form {
  static constexpr Statistic STATISTIC = Statistic::VARIANCE;
  static constexpr bool BIAS = true;
};
using SolutionForm = LayerNormBias;
