#include "backward_launch.cuh"

const char* launch_fp32(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream) {
  return launch<float, float2>(call, plan, workspace, device, stream);
}
