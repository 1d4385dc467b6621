// 0 Called as RmsNorm(out, x, weight, eps)
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>

void RmsNorm(tvm::ffi::TensorView out, tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps) {
  auto* a = static_cast<const _Float16*>(x.data_ptr());
  auto* w = static_cast<const _Float16*>(weight.data_ptr());
  auto* y = static_cast<_Float16*>(out.data_ptr());
  const int64_t hidden = x.size(1);
  for (int64_t row = 0; row < x.size(0); ++row, a += hidden, y += hidden) {
    double sum = 0;
    for (int64_t i = 0; i < hidden; ++i) sum += double(a[i]) * double(a[i]);
    const double rstd = 1 / std::sqrt(sum / hidden + eps);
    for (int64_t i = 0; i < hidden; ++i) y[i] = _Float16(float(double(a[i]) * rstd * double(w[i])));
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, RmsNorm)
