#include "launch.cuh"

const char* launch_fp32(const Rows& rows, int device, void* stream) {
  return launch<float, float2>(rows, device, stream);
}
