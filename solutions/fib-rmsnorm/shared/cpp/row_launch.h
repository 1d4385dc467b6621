// What a norm and its gradients check and choose alike, before each shares its rows out among threads.
//
// All names have internal linkage, because several builds of these sources (one for each Definition they serve) may be
// loaded in one process.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <initializer_list>

#include "instruction_set.h"
#include "row_task.h"
#include "tensor_checks.h"
#include "thread_pool.h"

namespace {

constexpr DLDataType HALF{kDLFloat, 16, 1}, BFLOAT16{kDLBfloat, 16, 1}, FLOAT{kDLFloat, 32, 1};

// An output of this size would be evicted from most L2 caches before anyone reads it: written around the caches, it
// need not be read from memory first. (RMSNorm of 4096 rows: 1.5 times as fast; 1024: as fast; 512: 0.65.)
constexpr int64_t STREAM_BYTES = 8 << 20;

// From which size of x on threads share its rows. That depends on the work for each row.
struct SharingBytes {
  int64_t awake;   // less is not worth sharing with a thread that is awake
  int64_t asleep;  // less is done before a thread that sleeps has woken up

  CpuSet ChooseCpus(int64_t bytes) const { return bytes >= awake ? CpuSet::OfThisThread() : CpuSet(); }
  bool WorthWaking(int64_t bytes) const { return bytes >= asleep; }
};

// The sizes of x, after CheckX.
struct RowSizes {
  explicit RowSizes(const TensorView& x)
      : batch(x.size(0)),
        hidden(x.size(1)),
        itemsize(x.dtype().bits / 8),
        row_bytes(hidden * itemsize),
        bytes(batch * row_bytes) {}

  // Whether all rows of these outputs start at 64-byte boundaries. A null pointer stands for an output that there is
  // not.
  bool CanStream(std::initializer_list<const void*> outputs) const {
    uintptr_t bits = row_bytes;
    for (const void* output : outputs) bits |= reinterpret_cast<uintptr_t>(output);
    return bits % 64 == 0;
  }

  int64_t batch, hidden, itemsize, row_bytes, bytes;
};

int64_t DivideUp(int64_t count, int64_t by) { return (count + by - 1) / by; }

void* DataOrNull(const TensorView* tensor) { return tensor == nullptr ? nullptr : data(*tensor); }

// The other tensors of a call are compared with x.
void CheckX(const TensorView& x) {
  const DLDeviceType device_type = x.device().device_type;
  if (device_type != kDLCPU) TVM_FFI_THROW(ValueError) << "x: expected a CPU tensor, got DLPack device " << device_type;
  if (x.ndim() != 2) TVM_FFI_THROW(ValueError) << "x: expected 2 dimensions [batch, hidden], got " << x.ndim();
  if (x.size(1) == 0) TVM_FFI_THROW(ValueError) << "x: expected rows of at least 1 element, got 0";
  check_matches_x("x", x, x, {x.size(0), x.size(1)});
}

// What an instruction set provides for one dtype: row_task.h says what that is.
using DtypeKernels = decltype(RowKernels::fp16);

DtypeKernels SelectKernel(DLDataType dtype, bool is_weight_float) {
  static const RowKernels& kernels = SelectKernels();
  if (dtype == HALF) return is_weight_float ? kernels.fp16_weight_fp32 : kernels.fp16;
  if (dtype == BFLOAT16) return is_weight_float ? kernels.bf16_weight_fp32 : kernels.bf16;
  if (dtype == FLOAT) return kernels.fp32;
  TVM_FFI_THROW(TypeError) << "x has dtype " << dtype << ", expected float16, bfloat16 or float32";
  return kernels.fp32;  // not reached
}

}  // namespace
