// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>
static void softmax(float* x, int size) {
  for (int i = 0; i < size; ++i) x[i] = std::exp(x[i]);
}
static int rmsnorm_inplace(float* ptr, const float* gamma, int size, float eps) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += double(ptr[i]) * ptr[i];
  const double rstd = 1 / std::sqrt(sum / size + eps);
  for (int i = 0; i < size; ++i) ptr[i] = ptr[i] * rstd * gamma[i];
  return 0;
}
