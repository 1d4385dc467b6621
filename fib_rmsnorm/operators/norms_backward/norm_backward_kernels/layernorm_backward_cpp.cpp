// The gradients of LayerNorm, row by row: dx in float, and dweight and dbias added in double, each rounded once.

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

// What the rows add up to.
struct Sums {
  std::vector<double> dweight, dbias;
};

template <typename Element>
void differentiate_row(const Element* dy, const Element* x, const Element* weight, float mean, float rstd,
                       int64_t hidden, Element* dx, Sums& sums) {
  double scaled_sum = 0, products = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) {
    const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
    const float scaled = static_cast<float>(dy[col]) * static_cast<float>(weight[col]);
    scaled_sum += scaled;
    products += scaled * normalized;
    sums.dweight[col] += static_cast<float>(dy[col]) * normalized;
    sums.dbias[col] += static_cast<float>(dy[col]);
  }
  const float mean_scaled = scaled_sum / hidden, mean_product = products / hidden;
  for (int64_t col = 0; col < hidden; ++col) {
    const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
    const float scaled = static_cast<float>(dy[col]) * static_cast<float>(weight[col]);
    dx[col] = static_cast<Element>((scaled - mean_scaled - normalized * mean_product) * rstd);
  }
}

template <typename Element>
void round_to(const std::vector<double>& sums, TensorView out) {
  auto* out_ptr = static_cast<Element*>(out.data_ptr());
  for (const double sum : sums) *out_ptr++ = static_cast<Element>(static_cast<float>(sum));
}

template <typename Element>
void differentiate(TensorView dy, TensorView x, TensorView weight, TensorView mean, TensorView rstd, TensorView dx,
                   TensorView dweight, TensorView dbias) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* dy_ptr = static_cast<const Element*>(dy.data_ptr());
  const auto* x_ptr = static_cast<const Element*>(x.data_ptr());
  const auto* mean_ptr = static_cast<const float*>(mean.data_ptr());
  const auto* rstd_ptr = static_cast<const float*>(rstd.data_ptr());
  auto* dx_ptr = static_cast<Element*>(dx.data_ptr());
  Sums sums{std::vector<double>(hidden), std::vector<double>(hidden)};
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t first = row * hidden;
    differentiate_row(dy_ptr + first, x_ptr + first, static_cast<const Element*>(weight.data_ptr()), mean_ptr[row],
                      rstd_ptr[row], hidden, dx_ptr + first, sums);
  }
  round_to<Element>(sums.dweight, dweight);
  round_to<Element>(sums.dbias, dbias);
}

// Shapes: dy, x and dx (batch, hidden), weight, dweight and dbias (hidden,), of one dtype; mean and rstd (batch,),
// float32.
void run(TensorView dy, TensorView x, TensorView weight, TensorView mean, TensorView rstd, TensorView dx,
         TensorView dweight, TensorView dbias) {
  const DLDataType dtype = x.dtype();
  const auto call = [&](auto differentiate) { differentiate(dy, x, weight, mean, rstd, dx, dweight, dbias); };
  if (dtype == DLDataType{kDLFloat, 16, 1}) return call(differentiate<_Float16>);
  if (dtype == DLDataType{kDLBfloat, 16, 1}) return call(differentiate<BFloat16>);
  if (dtype == DLDataType{kDLFloat, 32, 1}) return call(differentiate<float>);
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
