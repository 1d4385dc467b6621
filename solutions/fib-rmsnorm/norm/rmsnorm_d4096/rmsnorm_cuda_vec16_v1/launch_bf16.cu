#include "launch.cuh"

const char* launch_bf16(const Rows& rows, int device, void* stream) {
  return launch<__nv_bfloat16, __nv_bfloat162>(rows, device, stream);
}
