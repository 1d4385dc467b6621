// RMSNorm: out = x * rsqrt(mean(x^2) + eps) * weight, row by row, in float, rounded once.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <cstring>

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

template <typename Element, typename Weight>
void normalize_row(const Element* x, const Weight* weight, float eps, int64_t hidden, Element* out) {
  double squares = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) squares += static_cast<float>(x[col]) * static_cast<float>(x[col]);
  const float rstd = 1 / std::sqrt(static_cast<float>(squares / hidden) + eps);
  for (int64_t col = 0; col < hidden; ++col) {
    out[col] = static_cast<Element>(static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]));
  }
}

template <typename Element, typename Weight>
void normalize(TensorView x, TensorView weight, float eps, TensorView out) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* x_ptr = static_cast<const Element*>(x.data_ptr());
  const auto* weight_ptr = static_cast<const Weight*>(weight.data_ptr());
  auto* out_ptr = static_cast<Element*>(out.data_ptr());
  for (int64_t row = 0; row < batch; ++row) {
    normalize_row(x_ptr + row * hidden, weight_ptr, eps, hidden, out_ptr + row * hidden);
  }
}

template <typename Element>
void choose_weight(TensorView x, TensorView weight, float eps, TensorView out) {
  if (weight.dtype() == x.dtype()) return normalize<Element, Element>(x, weight, eps, out);
  if (weight.dtype() == DLDataType{kDLFloat, 32, 1}) return normalize<Element, float>(x, weight, eps, out);
  TVM_FFI_THROW(TypeError) << "weight: expected the dtype of x or float32, got " << weight.dtype();
}

// Shapes: x and out (batch, hidden); weight (hidden,). All are contiguous.
// The weight has the dtype of x, or float32.
void run(TensorView x, TensorView weight, double eps, TensorView out) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return choose_weight<_Float16>(x, weight, eps, out);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return choose_weight<BFloat16>(x, weight, eps, out);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return choose_weight<float>(x, weight, eps, out);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
