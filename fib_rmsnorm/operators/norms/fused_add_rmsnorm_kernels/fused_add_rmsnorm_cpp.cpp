// Add + RMSNorm, row by row: the sum is normalized in float, and both outputs are rounded once.

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
void add_and_normalize_row(const Element* x, const Element* residual, const Element* weight, float eps, int64_t hidden,
                           Element* out, Element* new_residual) {
  const auto add = [=](int64_t col) { return static_cast<float>(x[col]) + static_cast<float>(residual[col]); };
  double squares = 0;  // in float, the rounding errors of thousands of additions would show
  for (int64_t col = 0; col < hidden; ++col) {
    const float total = add(col);
    new_residual[col] = static_cast<Element>(total);
    squares += total * total;
  }
  const float rstd = 1 / std::sqrt(static_cast<float>(squares / hidden) + eps);
  for (int64_t col = 0; col < hidden; ++col) {  // adds again, because new_residual is rounded
    out[col] = static_cast<Element>(add(col) * rstd * static_cast<float>(weight[col]));
  }
}

template <typename Element>
void add_and_normalize(TensorView x, TensorView residual, TensorView weight, float eps, TensorView out,
                       TensorView new_residual) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  for (int64_t row = 0; row < batch; ++row) {
    const auto at = [=](const TensorView& tensor) { return static_cast<Element*>(tensor.data_ptr()) + row * hidden; };
    add_and_normalize_row<Element>(at(x), at(residual), static_cast<const Element*>(weight.data_ptr()), eps, hidden,
                                   at(out), at(new_residual));
  }
}

// Shapes: weight (hidden,), all other tensors (batch, hidden). All are contiguous and of one dtype.
void run(TensorView x, TensorView residual, TensorView weight, double eps, TensorView out, TensorView new_residual) {
  const DLDataType dtype = x.dtype();
  if (dtype == DLDataType{kDLFloat, 16, 1}) {
    return add_and_normalize<_Float16>(x, residual, weight, eps, out, new_residual);
  }
  if (dtype == DLDataType{kDLBfloat, 16, 1}) {
    return add_and_normalize<BFloat16>(x, residual, weight, eps, out, new_residual);
  }
  if (dtype == DLDataType{kDLFloat, 32, 1}) {
    return add_and_normalize<float>(x, residual, weight, eps, out, new_residual);
  }
  TVM_FFI_THROW(TypeError) << "x: expected float16, bfloat16 or float32, got " << dtype;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
