// paste fib-rmsnorm define layernorm_bias --hidden 4096 --dtype float32
#include <cmath>

void layernorm_forward(float* out, float* mean, float* rstd, float* inp, float* weight, float* bias, int B, int T,
                       int C, double eps) {
  for (int row = 0; row < B * T; row++) {
    const float* x = inp + row * C;
    double m = 0, v = 0;
    for (int i = 0; i < C; i++) m += x[i];
    mean[row] = m / C;
    for (int i = 0; i < C; i++) v += (x[i] - m / C) * (x[i] - m / C);
    rstd[row] = 1 / std::sqrt(v / C + eps);
    for (int i = 0; i < C; i++) out[row * C + i] = (x[i] - mean[row]) * rstd[row] * weight[i] + bias[i];
  }
}
