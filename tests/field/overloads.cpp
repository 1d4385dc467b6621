// 0 Called as rms_norm(out, x, weight, batch, hidden, eps)
#include <cmath>

template <typename T>
static void normalize(T* out, const T* x, const T* weight, int rows, int cols, float eps) {
  for (int row = 0; row < rows; ++row, x += cols, out += cols) {
    double sum = 0;
    for (int col = 0; col < cols; ++col) sum += double(x[col]) * double(x[col]);
    const double rstd = 1 / std::sqrt(sum / cols + eps);
    for (int col = 0; col < cols; ++col) out[col] = T(float(double(x[col]) * rstd * double(weight[col])));
  }
}

void rms_norm(_Float16* out, const _Float16* x, const _Float16* weight, int rows, int cols, float eps) {
  normalize(out, x, weight, rows, cols, eps);
}

void rms_norm(float* out, const float* x, const float* weight, int rows, int cols, float eps) {
  normalize(out, x, weight, rows, cols, eps);
}

void rms_norm(float* x, int cols, float eps) {
  for (int col = 0; col < cols; ++col) x[col] /= std::sqrt(x[col] * x[col] / cols + eps);
}
