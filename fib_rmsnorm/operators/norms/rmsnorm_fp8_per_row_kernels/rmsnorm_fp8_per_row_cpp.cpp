// RMSNorm in float8 with a scale of each row: y = x * rsqrt(mean(x^2) + eps) * weight,
// out_scale = max(max|y| / largest, 1 / (largest * 512)), out = y / out_scale,
// row by row, in float, limited to the largest number of the format and rounded once.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
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

// float8_e4m3fn has 3 bits of mantissa and a bias of 7, float8_e5m2 has 2 bits and a bias of 15.
template <int MANTISSA, int BIAS>
struct Float8 {
  static constexpr float LARGEST = MANTISSA == 3 ? 448 : 57344;
  static constexpr DLDataType DTYPE{MANTISSA == 3 ? kDLFloat8_e4m3fn : kDLFloat8_e5m2, 8, 1};
  uint8_t bits;

  explicit Float8(float value) {
    const float magnitude = std::min(std::fabs(value), LARGEST);
    const float smallest = std::ldexp(1.0f, 1 - BIAS);  // of the normal numbers
    if (magnitude < smallest) {
      bits = static_cast<uint8_t>(std::nearbyint(std::ldexp(magnitude, BIAS - 1 + MANTISSA)));
    } else {
      uint32_t wide;
      std::memcpy(&wide, &magnitude, sizeof wide);
      constexpr int DROPPED = 23 - MANTISSA;
      wide += (1u << (DROPPED - 1)) - 1 + (wide >> DROPPED & 1);  // to nearest, ties to even
      bits = static_cast<uint8_t>((wide >> DROPPED) - ((127 - BIAS) << MANTISSA));
    }
    if (std::signbit(value)) bits |= 0x80;
  }
};
using E4M3 = Float8<3, 7>;
using E5M2 = Float8<2, 15>;

template <typename Element>
float compute_rstd(const Element* x, float eps, int64_t hidden) {
  double squares = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) squares += static_cast<float>(x[col]) * static_cast<float>(x[col]);
  return 1 / std::sqrt(static_cast<float>(squares / hidden) + eps);
}

template <typename Element, typename Weight, typename Output>
void normalize(TensorView x, TensorView weight, float eps, TensorView out, TensorView out_scale) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* weight_ptr = static_cast<const Weight*>(weight.data_ptr());
  std::vector<float> y(hidden);
  for (int64_t row = 0; row < batch; ++row) {
    const auto* x_ptr = static_cast<const Element*>(x.data_ptr()) + row * hidden;
    auto* out_ptr = static_cast<Output*>(out.data_ptr()) + row * hidden;
    const float rstd = compute_rstd(x_ptr, eps, hidden);
    float largest = 0;
    for (int64_t col = 0; col < hidden; ++col) {
      y[col] = static_cast<float>(x_ptr[col]) * rstd * static_cast<float>(weight_ptr[col]);
      largest = std::max(largest, std::fabs(y[col]));
    }
    const float scale = std::max(largest / Output::LARGEST, 1 / (Output::LARGEST * 512));  // a row of zeros has one too
    for (int64_t col = 0; col < hidden; ++col) out_ptr[col] = Output(y[col] / scale);
    static_cast<float*>(out_scale.data_ptr())[row] = scale;
  }
}

template <typename Element, typename Weight>
void choose_output(TensorView x, TensorView weight, float eps, TensorView out, TensorView out_scale) {
  const DLDataType dtype = out.dtype();
  if (dtype == E4M3::DTYPE) return normalize<Element, Weight, E4M3>(x, weight, eps, out, out_scale);
  if (dtype == E5M2::DTYPE) return normalize<Element, Weight, E5M2>(x, weight, eps, out, out_scale);
  TVM_FFI_THROW(TypeError) << "out: expected float8_e4m3fn or float8_e5m2, got " << dtype;
}

template <typename Element>
void choose_weight(TensorView x, TensorView weight, float eps, TensorView out, TensorView out_scale) {
  const DLDataType dtype = weight.dtype();
  if (dtype == x.dtype()) return choose_output<Element, Element>(x, weight, eps, out, out_scale);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return choose_output<Element, float>(x, weight, eps, out, out_scale);
  TVM_FFI_THROW(TypeError) << "weight: expected the dtype of x or float32, got " << dtype;
}

// Shapes: x and out (batch, hidden); weight (hidden,); out_scale (batch,), float32. All are contiguous.
// The weight has the dtype of x, or float32.
void run(TensorView x, TensorView weight, double eps, TensorView out, TensorView out_scale) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) return choose_weight<_Float16>(x, weight, eps, out, out_scale);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return choose_weight<BFloat16>(x, weight, eps, out, out_scale);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return choose_weight<float>(x, weight, eps, out, out_scale);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
