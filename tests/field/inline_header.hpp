// 0 Called as rms_norm(x, weight, nullptr, out, scratch, batch, hidden, eps)
#pragma once
#include <cmath>
namespace ops {
template <typename T, typename Acc>
inline void rms_norm(const T* x, const T* weight, const T* bias, T* out, Acc* rstd, int rows, int cols, float eps) {
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = row * cols; i < row * cols + cols; ++i) sum += double(x[i]) * double(x[i]);
    rstd[row] = 1 / std::sqrt(sum / cols + eps);
    for (int i = 0, at = row * cols; i < cols; ++i, ++at)
      out[at] = T(float(double(x[at]) * rstd[row] * double(weight[i]) + (bias ? double(bias[i]) : 0)));
  }
}
template void rms_norm(const _Float16*, const _Float16*, const _Float16*, _Float16*, float*, int, int, float);
}  // namespace ops
