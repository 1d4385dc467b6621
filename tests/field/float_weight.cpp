// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float16,weight=float32
#include <cmath>
#include <cstddef>
struct Norm {
  static auto forward(_Float16* dst, const _Float16* src, const float* const gamma, ptrdiff_t nrow, ptrdiff_t ncol,
                      double eps) -> void {
    for (ptrdiff_t at = 0; at < nrow * ncol; at += ncol) {
      double sum = 0;
      for (ptrdiff_t i = at; i < at + ncol; ++i) sum += double(src[i]) * double(src[i]);
      const double rstd = 1 / std::sqrt(sum / ncol + eps);
      for (ptrdiff_t i = 0; i < ncol; ++i) dst[at + i] = _Float16(float(double(src[at + i]) * rstd * gamma[i]));
    }
  }
};
