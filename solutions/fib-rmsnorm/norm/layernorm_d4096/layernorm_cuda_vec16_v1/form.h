#pragma once

#include "norm_form.h"

// out = (x - mean(x)) * rsqrt(var(x) + eps) * weight
struct LayerNorm : Form {
  static constexpr Statistic STATISTIC = Statistic::VARIANCE;
};
using SolutionForm = LayerNorm;
