// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>

void rmsnorm_forward(float* out, float* rms, const float* inp, const float* weight, int B, int T, int C, float eps) {
  for (int b = 0; b < B * T; b++) {
    const float* x = inp + b * C;
    double sum = 0;
    for (int i = 0; i < C; i++) sum += double(x[i]) * x[i];
    rms[b] = 1 / std::sqrt(sum / C + eps);
    for (int i = 0; i < C; i++) out[b * C + i] = x[i] * rms[b] * weight[i];
  }
}
