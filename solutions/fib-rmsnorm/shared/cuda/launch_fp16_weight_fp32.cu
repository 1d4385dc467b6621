#include "form.h"
#include "norm_launch.cuh"

const char* launch_fp16_weight_fp32(const NormCall& call, int device, void* stream) {
  return launch<WithFloatWeight<SolutionForm>, __half, __half2>(call, device, stream);
}
