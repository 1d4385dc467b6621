#include <cuda_occupancy.h>
#include <cstdio>

int main() {
  int major, minor, sm_threads, sm_shared, max_shared, threads, registers, shared;
  while (std::scanf("%d %d %d %d %d %d %d %d", &major, &minor, &sm_threads, &sm_shared, &max_shared, &threads,
                    &registers, &shared) == 8) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = sm_threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = sm_shared;
    device.numSms = 100;
    device.sharedMemPerBlockOptin = max_shared;
    device.reservedSharedMemPerBlock = major < 8 ? 0 : 1024;
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = 1024;
    function.numRegs = registers;
    function.sharedSizeBytes = 0;
    function.partitionedGCConfig = PARTITIONED_GC_OFF;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = max_shared;
    function.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    const auto error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, shared);
    std::printf("%d\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1 - error);
  }
}
