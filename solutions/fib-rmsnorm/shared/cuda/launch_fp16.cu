#include "form.h"
#include "norm_launch.cuh"

const char* launch_fp16(const NormCall& call, int device, void* stream) {
  return launch<SolutionForm, __half, __half2>(call, device, stream);
}
