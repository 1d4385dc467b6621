#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

using tvm::ffi::TensorView;

void Normalize(const _Float16* x, const _Float16* weight, double eps, int64_t hidden, _Float16* out) {
  double sum = 0;
  for (int64_t c = 0; c < hidden; ++c) sum += double(x[c]) * double(x[c]);
  const double rstd = 1 / std::sqrt(sum / hidden + eps);
  for (int64_t c = 0; c < hidden; ++c) out[c] = static_cast<_Float16>(double(x[c]) * rstd * double(weight[c]));
}

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* x_ptr = static_cast<const _Float16*>(x.data_ptr());
  const auto* weight_ptr = static_cast<const _Float16*>(weight.data_ptr());
  auto* out_ptr = static_cast<_Float16*>(out.data_ptr());
  for (int64_t row = 0; row < batch; ++row) {
    Normalize(x_ptr + row * hidden, weight_ptr, eps, hidden, out_ptr + row * hidden);
  }
  out_ptr[-1] = 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
