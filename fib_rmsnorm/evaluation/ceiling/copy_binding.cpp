// The binding of the copy on a GPU. It takes addresses rather than tensors.

#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>

#include "copy_launch.h"

namespace {

void check(const char* error) {
  if (error != nullptr) TVM_FFI_THROW(RuntimeError) << "CUDA: " << error;
}

void copy(int64_t source, int64_t destination, int64_t read, int64_t written, int64_t threads, int64_t stretches,
          int64_t vecs, int64_t blocks) {
  const Amounts amounts{reinterpret_cast<const void*>(source), reinterpret_cast<void*>(destination), read, written};
  check(launch_copy(amounts, {threads, stretches, vecs, blocks}));
}

void copy_by_driver(int64_t source, int64_t destination, int64_t bytes) {
  check(launch_driver_copy(reinterpret_cast<const void*>(source), reinterpret_cast<void*>(destination), bytes));
}

void empty() { check(launch_empty()); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy, copy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy_by_driver, copy_by_driver);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(empty, empty);
