// Add + RMSNorm in float8_e4m3fn with a scale of each row, row by row: y is the normalized sum times the weight in
// float, out_scale = max(max|y| / 448, 1 / (448 * 512)), out = y / out_scale; all outputs are rounded once.

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

constexpr float LARGEST = 448;  // of the numbers of float8_e4m3fn

// The bits of the nearest number of float8_e4m3fn, which has 3 bits of mantissa and a bias of 7.
uint8_t to_e4m3(float value) {
  const float magnitude = std::min(std::fabs(value), LARGEST);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (magnitude < 1.0f / 64) return sign | static_cast<uint8_t>(std::nearbyint(magnitude * 512));  // subnormal
  uint32_t wide;
  std::memcpy(&wide, &magnitude, sizeof wide);
  wide += (1u << 19) - 1 + (wide >> 20 & 1);  // to nearest, ties to even
  return sign | static_cast<uint8_t>((wide >> 20) - ((127 - 7) << 3));
}

template <typename Element>
void add_row(const Element* x, const Element* residual, int64_t hidden, Element* new_residual, float* total) {
  for (int64_t col = 0; col < hidden; ++col) {
    total[col] = static_cast<float>(x[col]) + static_cast<float>(residual[col]);
    new_residual[col] = static_cast<Element>(total[col]);
  }
}

// Turns the sum into what is quantised, and returns its scale.
template <typename Element>
float normalize_row(const Element* weight, float eps, int64_t hidden, float* y) {
  double squares = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) squares += y[col] * y[col];
  const float rstd = 1 / std::sqrt(static_cast<float>(squares / hidden) + eps);
  float largest = 0;
  for (int64_t col = 0; col < hidden; ++col) {
    y[col] *= rstd * static_cast<float>(weight[col]);
    largest = std::max(largest, std::fabs(y[col]));
  }
  return std::max(largest / LARGEST, 1 / (LARGEST * 512));  // a row of zeros has one too
}

template <typename Element>
void add_and_normalize(TensorView x, TensorView residual, TensorView weight, float eps, TensorView out,
                       TensorView new_residual, TensorView out_scale) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  std::vector<float> y(hidden);
  for (int64_t row = 0; row < batch; ++row) {
    const auto at = [=](const TensorView& tensor) { return static_cast<Element*>(tensor.data_ptr()) + row * hidden; };
    add_row<Element>(at(x), at(residual), hidden, at(new_residual), y.data());
    const float scale = normalize_row(static_cast<const Element*>(weight.data_ptr()), eps, hidden, y.data());
    auto* out_ptr = static_cast<uint8_t*>(out.data_ptr()) + row * hidden;
    for (int64_t col = 0; col < hidden; ++col) out_ptr[col] = to_e4m3(y[col] / scale);
    static_cast<float*>(out_scale.data_ptr())[row] = scale;
  }
}

// Shapes: weight (hidden,), out_scale (batch,), all other tensors (batch, hidden). All are contiguous; out is
// float8_e4m3fn, out_scale float32, and the others have one dtype.
void run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual,
         TensorView out_scale) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) {
    return add_and_normalize<_Float16>(x, residual, weight, eps, out, new_residual, out_scale);
  }
  if (dtype == DLDataType{kDLBfloat, 16, 1}) {
    return add_and_normalize<BFloat16>(x, residual, weight, eps, out, new_residual, out_scale);
  }
  if (dtype == DLDataType{kDLFloat, 32, 1}) {
    return add_and_normalize<float>(x, residual, weight, eps, out, new_residual, out_scale);
  }
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
