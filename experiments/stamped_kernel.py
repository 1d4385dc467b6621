"""The CUDA solution with time stamps: from the GPU's clock, at the begin and the end of each warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

STAMPED_KERNELS = ("norm_row", "norm_rows")
STAMP_DECLARATIONS = """
constexpr int64_t MOST_STAMPS = 1 << 22;
__device__ unsigned long long stamps[2 * MOST_STAMPS];
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
  return time;
}
"""
STAMP_BEGIN = "  const unsigned long long began = now();\n"
STAMP_END = """\
  __syncwarp();
  const int of_block = threadIdx.x + threadIdx.y * blockDim.x;
  if (of_block % WARP == 0) {
    const int64_t warp = blockIdx.x * ((blockDim.x * blockDim.y + WARP - 1) / WARP) + of_block / WARP;
    if (warp < MOST_STAMPS) {
      stamps[2 * warp] = began;
      stamps[2 * warp + 1] = now();
    }
  }
"""
STAMP_READER = """
// Copies the stamps out and clears them.
extern "C" int read_stamps(void* to, int64_t bytes) {
  if (cudaMemcpyFromSymbol(to, stamps, bytes)) return 1;
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, stamps) || cudaMemset(address, 0, bytes);
}
"""


def stamp(solution: Solution) -> Solution:
    """The CUDA Solution with time stamps in its main kernels."""
    solution = solution.model_copy(deep=True)
    sources = {source.path: source for source in solution.sources}
    device, host = sources["norm_kernels.cuh"], sources["launch_fp16.cu"]
    includes, namespace, kernels = device.content.partition("namespace {\n")
    for kernel in STAMPED_KERNELS:
        kernels = stamp_kernel(kernels, kernel)
    device.content = f"{includes}{namespace}{STAMP_DECLARATIONS}{kernels}"
    host.content += STAMP_READER
    return solution


def stamp_kernel(source: str, kernel: str) -> str:
    """The source with stamps where a kernel's body begins and ends."""
    head, name, rest = source.partition(f" {kernel}(")
    signature, brace, body = rest.partition(") {\n")
    inside, end, tail = body.partition("\n}\n")
    if not (name and brace and end):
        raise SystemExit(f"The CUDA solution is not written as this script expects: {kernel}")
    return f"{head}{name}{signature}{brace}{STAMP_BEGIN}{inside}\n{STAMP_END}}}\n{tail}"


class Stamped:
    """A CUDA Solution with stamps, built; `entry` is its entry point."""

    def __init__(self, solution: Solution) -> None:
        import ctypes

        import torch

        from fib_rmsnorm.building.cache import cache_folder
        from fib_rmsnorm.building.native import build_native, load_native

        library = build_native(stamp(solution), cache_folder())
        self.entry = load_native(library, "run")
        self._reader = ctypes.CDLL(str(library)).read_stamps
        self._stamps = torch.zeros(1 << 23, dtype=torch.int64)
        self._arguments = ctypes.c_void_p(self._stamps.data_ptr()), ctypes.c_int64(self._stamps.nbytes)

    def take_span(self) -> float:
        """Microseconds from the first stamp to the last since this was last asked."""
        if self._reader(*self._arguments):
            raise SystemExit("the stamps cannot be read")
        pairs = self._stamps.view(-1, 2)
        pairs = pairs[pairs[:, 0] > 0]
        span: float = (pairs[:, 1].max() - pairs[:, 0].min()).item() / 1e3
        return span
