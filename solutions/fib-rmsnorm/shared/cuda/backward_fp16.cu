#include "backward_launch.cuh"

const char* launch_fp16(const Gradients& call, const Plan& plan, float* workspace, int device, void* stream) {
  return launch<__half, __half2>(call, plan, workspace, device, stream);
}
