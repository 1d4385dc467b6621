// Work of 0.2 ms that no call of the host launches: by a kernel, and in a conditional node of a graph.
#include <cuda_runtime.h>

__global__ void Empty() {}
__global__ void Spin() {
  for (const long long start = clock64(); clock64() - start < 400000;) {
  }
}
__global__ void LaunchSpin() { Spin<<<1, 1, 0, cudaStreamTailLaunch>>>(); }

extern "C" void by_a_kernel(cudaStream_t stream) { LaunchSpin<<<1, 1, 0, stream>>>(); }

static cudaGraphExec_t Conditional() {
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  cudaGraphConditionalHandle handle;
  cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault);
  cudaGraphNodeParams branch = {cudaGraphNodeTypeConditional};
  branch.conditional.handle = handle;
  branch.conditional.type = cudaGraphCondTypeIf;
  branch.conditional.size = 1;
  cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
  cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &branch);
#else
  cudaGraphAddNode(&node, graph, nullptr, 0, &branch);
#endif
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(Spin);
  kernel.gridDim = kernel.blockDim = dim3(1);
  cudaGraphAddKernelNode(&node, branch.conditional.phGraph_out[0], nullptr, 0, &kernel);
  cudaGraphExec_t made;
  cudaGraphInstantiate(&made, graph, 0);
  return made;
}

extern "C" void in_a_conditional_node(cudaStream_t stream) {
  static cudaGraphExec_t graph = Conditional();
  Empty<<<1, 1, 0, stream>>>();
  cudaGraphLaunch(graph, stream);
}
