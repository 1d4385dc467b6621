// Exercise 4: the algorithm of in_cuda.cu on a CPU, with its mistake: WARPS partial sums of each row.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

using tvm::ffi::TensorView;

constexpr int WARPS = 8;

void normalize_row(const _Float16* x, const _Float16* weight, float eps, int64_t hidden, _Float16* out) {
  float sums[WARPS] = {};
  for (int64_t i = 0; i < hidden; ++i) {
    const float val = static_cast<float>(x[i]);
    sums[i % WARPS] += val * val;
  }

  float sum_sq = 0.0f;
  for (int warp = 0; warp < WARPS; ++warp) sum_sq += sums[warp];

  const float rstd = 1.0f / std::sqrt(sums[0] / hidden + eps);

  for (int64_t i = 0; i < hidden; ++i) {
    out[i] = static_cast<_Float16>(static_cast<float>(x[i]) * rstd * static_cast<float>(weight[i]));
  }
}

// x and out: (batch, hidden); weight: (hidden,); all float16 and contiguous.
void run(TensorView x, TensorView weight, double eps, TensorView out) {
  const int64_t batch = x.size(0), hidden = x.size(1);
  const auto* x_ptr = static_cast<const _Float16*>(x.data_ptr());
  const auto* weight_ptr = static_cast<const _Float16*>(weight.data_ptr());
  auto* out_ptr = static_cast<_Float16*>(out.data_ptr());
  for (int64_t row = 0; row < batch; ++row) {
    normalize_row(x_ptr + row * hidden, weight_ptr, static_cast<float>(eps), hidden, out_ptr + row * hidden);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
