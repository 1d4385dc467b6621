#include "form.h"
#include "norm_launch.cuh"

const char* launch_bf16_weight_fp32(const NormCall& call, int device, void* stream) {
  return launch<WithFloatWeight<SolutionForm>, __nv_bfloat16, __nv_bfloat162>(call, device, stream);
}
