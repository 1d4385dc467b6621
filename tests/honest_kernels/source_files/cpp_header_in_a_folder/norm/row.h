#pragma once

#include <cmath>
#include <cstdint>

inline void NormalizeRow(const _Float16* x, const _Float16* weight, double eps, int64_t hidden, _Float16* out) {
  double sum = 0;
  for (int64_t c = 0; c < hidden; ++c) sum += double(x[c]) * double(x[c]);
  const double rstd = 1 / std::sqrt(sum / hidden + eps);
  for (int64_t c = 0; c < hidden; ++c) out[c] = static_cast<_Float16>(double(x[c]) * rstd * double(weight[c]));
}
