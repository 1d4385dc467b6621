#include "launch.cuh"

const char* launch_fp16(const Rows& rows, int device, void* stream) {
  return launch<__half, __half2>(rows, device, stream);
}
