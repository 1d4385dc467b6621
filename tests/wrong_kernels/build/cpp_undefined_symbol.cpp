#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

using tvm::ffi::TensorView;

void Elsewhere();

void Run(TensorView x, TensorView weight, double eps, TensorView out) { Elsewhere(); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
