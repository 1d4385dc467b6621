// Chooses the instruction set once, at the first call. rows.inl is the text that each simd_*.h compiles for its own.
#pragma once

#include <tvm/ffi/error.h>

#include <cstdlib>
#include <string>

#include "row_task.h"

// What is compiled for processors with one of these sets runs on no others, and builds in a third of the time without
// the code for others.
#if defined(__AVX512F__) && defined(__AVX512BW__)
#define ONLY_SET {"avx512", true, avx512::KERNELS}
#include "simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define ONLY_SET {"avx2", true, avx2::KERNELS}
#include "simd_avx2.h"
#else
#include "simd_portable.h"
#if defined(__x86_64__)
#include <cpuid.h>

#include "simd_avx2.h"
#include "simd_avx512.h"
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#include "simd_neon.h"
#endif
#endif

namespace {

struct InstructionSet {
  const char* name;
  bool supported;
  const RowKernels& kernels;
};

#if defined(__x86_64__) && !defined(ONLY_SET)
inline bool HasF16C() {  // g++ before 11 does not know it in __builtin_cpu_supports
  unsigned eax, ebx, ecx = 0, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

// The best instruction set here, or the one that the environment variable FIB_RMSNORM_ISA names
// (avx512, avx2, neon or portable), which lets one machine test them all.
inline const RowKernels& SelectKernels() {
  const InstructionSet best_first[] = {
#if defined(ONLY_SET)
      ONLY_SET,
#else
#if defined(__x86_64__)
      {"avx512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"), avx512::KERNELS},
      {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16C(), avx2::KERNELS},
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
      {"neon", true, neon::KERNELS},
#endif
      {"portable", true, portable::KERNELS},
#endif
  };
  const char* wanted = std::getenv("FIB_RMSNORM_ISA");
  std::string supported;
  for (const InstructionSet& isa : best_first) {
    if (!isa.supported) continue;
    if (wanted == nullptr || std::string(wanted) == isa.name) return isa.kernels;
    supported += std::string(supported.empty() ? "" : ", ") + isa.name;
  }
  TVM_FFI_THROW(ValueError) << "FIB_RMSNORM_ISA is '" << wanted << "', expected one of: " << supported;
  return best_first[0].kernels;  // not reached
}

}  // namespace
