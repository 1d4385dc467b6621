// LayerNorm: out = (x - mean) * rsqrt(var + eps) * weight + bias, row by row, in float, rounded once.

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

template <typename Element>
void normalize_row(const Element* x, const Element* weight, const Element* bias, float eps, int64_t hidden,
                   Element* out) {
  double sum = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) sum += static_cast<float>(x[col]);
  const float mean = sum / hidden;
  double squares = 0;  // of x - mean: mean(x^2) - mean^2 would lose the digits of a large mean
  for (int64_t col = 0; col < hidden; ++col) {
    const float centered = static_cast<float>(x[col]) - mean;
    squares += centered * centered;
  }
  const float rstd = 1 / std::sqrt(static_cast<float>(squares / hidden) + eps);
  for (int64_t col = 0; col < hidden; ++col) {
    const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
    out[col] = static_cast<Element>(normalized * static_cast<float>(weight[col]) + static_cast<float>(bias[col]));
  }
}

template <typename Element>
void normalize(TensorView x, TensorView weight, TensorView bias, float eps, TensorView out) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* x_ptr = static_cast<const Element*>(x.data_ptr());
  const auto* weight_ptr = static_cast<const Element*>(weight.data_ptr());
  const auto* bias_ptr = static_cast<const Element*>(bias.data_ptr());
  auto* out_ptr = static_cast<Element*>(out.data_ptr());
  for (int64_t row = 0; row < batch; ++row) {
    normalize_row(x_ptr + row * hidden, weight_ptr, bias_ptr, eps, hidden, out_ptr + row * hidden);
  }
}

// Shapes: x and out (batch, hidden), weight and bias (hidden,). All are contiguous and of one dtype.
void run(TensorView x, TensorView weight, TensorView bias, double eps, TensorView out) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return normalize<_Float16>(x, weight, bias, eps, out);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return normalize<BFloat16>(x, weight, bias, eps, out);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return normalize<float>(x, weight, bias, eps, out);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
