#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>

#include "norm/row.h"

using tvm::ffi::TensorView;

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  const int64_t hidden = x.size(1);
  for (int64_t row = 0; row < x.size(0); ++row) {
    NormalizeRow(static_cast<const _Float16*>(x.data_ptr()) + row * hidden,
                 static_cast<const _Float16*>(weight.data_ptr()), eps, hidden,
                 static_cast<_Float16*>(out.data_ptr()) + row * hidden);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
