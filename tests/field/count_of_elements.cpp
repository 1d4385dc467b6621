// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>
#include <cstddef>

void rmsnorm(const float* A, const float* W, float* B, size_t numel, int N, float eps, bool weighs = true) {
  for (size_t r = 0; r < numel / N; ++r) {
    double sum = 0;
    for (int i = 0; i < N; ++i) sum += double(A[r * N + i]) * A[r * N + i];
    for (int i = 0; i < N; ++i) B[r * N + i] = A[r * N + i] / std::sqrt(sum / N + eps) * (weighs ? W[i] : 1);
  }
}
