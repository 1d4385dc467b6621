#include "form.h"
#include "norm_launch.cuh"

const char* launch_fp32(const NormCall& call, int device, void* stream) {
  return launch<SolutionForm, float, float2>(call, device, stream);
}
