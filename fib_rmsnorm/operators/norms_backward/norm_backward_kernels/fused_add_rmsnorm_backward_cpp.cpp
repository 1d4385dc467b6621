// The gradients of add + RMSNorm, row by row: dx in float, and dweight added in double, each rounded once.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

using tvm::ffi::TensorView;

// The upper half of a float. For float16 there is _Float16, which needs g++ 12 or clang 15.
struct BFloat16 {
  uint16_t bits;

  explicit BFloat16(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    bits = std::isnan(value) ? 0x7FC0 : (wide + 0x7FFF + (wide >> 16 & 1)) >> 16;  // to nearest, ties to even
  }
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};

template <typename Element>
void differentiate_row(const Element* dy, const Element* dnew_residual, const Element* x, const Element* weight,
                       float rstd, int64_t hidden, Element* dx, double* dweight) {
  double products = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) {
    const float normalized = static_cast<float>(x[col]) * rstd;
    products += static_cast<float>(dy[col]) * static_cast<float>(weight[col]) * normalized;
    dweight[col] += static_cast<float>(dy[col]) * normalized;
  }
  const float mean_product = products / hidden;
  for (int64_t col = 0; col < hidden; ++col) {
    const float normalized = static_cast<float>(x[col]) * rstd;
    const float scaled = static_cast<float>(dy[col]) * static_cast<float>(weight[col]);
    const float of_norm = (scaled - normalized * mean_product) * rstd;
    dx[col] = static_cast<Element>(of_norm + static_cast<float>(dnew_residual[col]));
  }
}

template <typename Element>
void differentiate(TensorView dy, TensorView dnew_residual, TensorView x, TensorView weight, TensorView rstd,
                   TensorView dx, TensorView dweight) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* dy_ptr = static_cast<const Element*>(dy.data_ptr());
  const auto* dnew_residual_ptr = static_cast<const Element*>(dnew_residual.data_ptr());
  const auto* x_ptr = static_cast<const Element*>(x.data_ptr());
  auto* dx_ptr = static_cast<Element*>(dx.data_ptr());
  std::vector<double> sums(hidden);
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t first = row * hidden;
    differentiate_row(dy_ptr + first, dnew_residual_ptr + first, x_ptr + first,
                      static_cast<const Element*>(weight.data_ptr()), static_cast<const float*>(rstd.data_ptr())[row],
                      hidden, dx_ptr + first, sums.data());
  }
  auto* dweight_ptr = static_cast<Element*>(dweight.data_ptr());
  for (int64_t col = 0; col < hidden; ++col) dweight_ptr[col] = static_cast<Element>(static_cast<float>(sums[col]));
}

// Shapes: dy, dnew_residual, x (the saved sum) and dx (batch, hidden), weight and dweight (hidden,), of one dtype;
// rstd (batch,), float32. dx is the gradient of the residual too.
void run(TensorView dy, TensorView dnew_residual, TensorView x, TensorView weight, TensorView rstd, TensorView dx,
         TensorView dweight) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1})
    return differentiate<_Float16>(dy, dnew_residual, x, weight, rstd, dx, dweight);
  if (dtype == DLDataType{kDLBfloat, 16, 1})
    return differentiate<BFloat16>(dy, dnew_residual, x, weight, rstd, dx, dweight);
  if (dtype == DLDataType{kDLFloat, 32, 1})
    return differentiate<float>(dy, dnew_residual, x, weight, rstd, dx, dweight);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
