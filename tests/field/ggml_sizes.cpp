// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>
#include <cstdint>

static void rms_norm_mul_f32(const float* __restrict__ src0, const float* __restrict__ src1, float* __restrict__ dst,
                             int64_t ne00, int64_t nrows, float eps) {
  for (int64_t r = 0; r < nrows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < ne00; ++i) sum += double(src0[r * ne00 + i]) * src0[r * ne00 + i];
    const double scale = 1 / std::sqrt(sum / ne00 + eps);
    for (int64_t i = 0; i < ne00; ++i) dst[r * ne00 + i] = src0[r * ne00 + i] * scale * src1[i];
  }
}
