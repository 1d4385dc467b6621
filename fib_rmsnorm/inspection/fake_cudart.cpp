// Stands in front of the CUDA runtime and notes what host code would launch, on a GPU that need not be here.
//
// Loaded before a library that calls the runtime, it answers those of its functions by which host code chooses a
// launch: what the device is, and how many blocks fit on it. A launch is noted and not made; memory is never touched.
// Whatever is not here reaches the real runtime, which says that there is no device.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace {

struct Device {
  int major, minor, multiprocessors, threads, blocks, registers, shared, max_shared, l2;
};

Device device;
int (*count_blocks)(const char* kernel, int threads, int64_t dynamic_shared) = nullptr;
void (*note_launch)(const char* kernel, const int64_t* sizes, void** arguments) = nullptr;
std::map<const void*, std::string> names;

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
} pending;

cudaError_t note(const void* function, dim3 grid, dim3 block, size_t shared, void** arguments) {
  const int64_t sizes[] = {grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<int64_t>(shared)};
  note_launch(names[function].c_str(), sizes, arguments);
  return cudaSuccess;
}

// The driver's cuLaunchKernel, whose functions are what cudaGetKernel or cudaGetFuncBySymbol gave.
CUresult CUDAAPI launch_by_driver(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, unsigned shared, CUstream, void** arguments,
                                  void**) {
  note(function, {x, y, z}, {block_x, block_y, block_z}, shared, arguments);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// What the tool calls: the device, who counts the blocks that fit, and who notes the grid, the block and the dynamic
// shared memory of each launch.
void fake_start(const int* figures, int (*counter)(const char*, int, int64_t),
                void (*noter)(const char*, const int64_t*, void**)) {
  device = {figures[0], figures[1], figures[2], figures[3], figures[4], figures[5], figures[6], figures[7], figures[8]};
  count_blocks = counter;
  note_launch = noter;
}

// What compiled host code calls behind its user's back.

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  names[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  pending = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pending.grid;
  *block = pending.block;
  *shared = pending.shared;
  *static_cast<void**>(stream) = pending.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t) {
  return note(kernel, grid, block, shared, arguments);
}

// Launches.

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t) {
  return note(function, grid, block, shared, arguments);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t) {
  return note(function, grid, block, shared, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return note(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, arguments);
}
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) { return __cudaGetKernel(kernel, function); }
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* found, const void* function) {
  *found = reinterpret_cast<cudaFunction_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool found = std::strcmp(symbol, "cuLaunchKernel") == 0;
  *function = found ? reinterpret_cast<void*>(launch_by_driver) : nullptr;
  if (result) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// What the device is.

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* number) { return *number = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const std::map<int, int> values = {
      {cudaDevAttrMultiProcessorCount, device.multiprocessors},
      {cudaDevAttrComputeCapabilityMajor, device.major},
      {cudaDevAttrComputeCapabilityMinor, device.minor},
      {cudaDevAttrMaxThreadsPerMultiProcessor, device.threads},
      {cudaDevAttrMaxBlocksPerMultiprocessor, device.blocks},
      {cudaDevAttrMaxRegistersPerMultiprocessor, device.registers},
      {cudaDevAttrMaxRegistersPerBlock, device.registers},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, device.shared},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, device.max_shared},
      {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
      {cudaDevAttrL2CacheSize, device.l2},
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrCooperativeLaunch, 1},
  };
  const auto found = values.find(attribute);
  if (found == values.end()) return cudaErrorNotSupported;
  *value = found->second;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  properties->major = device.major;
  properties->minor = device.minor;
  properties->multiProcessorCount = device.multiprocessors;
  properties->maxThreadsPerMultiProcessor = device.threads;
  properties->maxBlocksPerMultiProcessor = device.blocks;
  properties->regsPerMultiprocessor = properties->regsPerBlock = device.registers;
  properties->sharedMemPerMultiprocessor = device.shared;
  properties->sharedMemPerBlockOptin = device.max_shared;
  properties->sharedMemPerBlock = 48 << 10;
  properties->l2CacheSize = device.l2;
  properties->maxThreadsPerBlock = 1024;
  properties->warpSize = 32;
  return cudaSuccess;
}

// What fits on it.

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared, unsigned) {
  *blocks = count_blocks(names[function].c_str(), threads, static_cast<int64_t>(shared));
  return *blocks < 0 ? cudaErrorNotSupported : cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

// What has no bearing on a launch.

cudaError_t cudaMallocAsync(void** memory, size_t, cudaStream_t) {
  static char untouched;
  *memory = &untouched;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

}  // extern "C"
