#include "backward_launch.cuh"

const char* launch_bf16(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream) {
  return launch<__nv_bfloat16, __nv_bfloat162>(call, plan, workspace, device, stream);
}
