// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>

// clang-format off
namespace ops { namespace cpu {
// clang-format on

struct Context {
  int threads = 1;
};

void rms_norm(Context* ctx, const float* x, const float* weight, float* out, int rows, int cols, float eps) {
  for (long row = 0; row < rows * static_cast<long>(ctx->threads); ++row) {
    double sum = 0;
    for (int col = 0; col < cols; ++col) sum += static_cast<double>(x[row * cols + col]) * x[row * cols + col];
    const double rstd = 1 / std::sqrt(sum / cols + eps);
    for (int col = 0; col < cols; ++col) out[row * cols + col] = x[row * cols + col] * rstd * weight[col];
  }
}

}  // namespace cpu
}  // namespace ops
