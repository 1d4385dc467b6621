"""What is read off machine code, of kernels whose instructions are known."""

from __future__ import annotations

import re
import subprocess

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.disassembly import find_cuobjdump, read_kernels
from fib_rmsnorm.inspection.facts import Access

SOURCE = """\
#include <cuda_fp16.h>
extern "C" __global__ void copy16(const uint4* x, uint4* out) { out[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void copy2(const __half* x, __half* out) { out[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void reverse(const float* x, float* out) {
  __shared__ float shared[256];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = rsqrtf(shared[255 - threadIdx.x]);
}
extern "C" __global__ void sum(const float2* x, float* out, int count) {
  float total = 0;
  #pragma unroll 1
  for (int i = threadIdx.x; i < count; i += 32) total = fmaf(x[i].x, x[i].y, total);
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  if (threadIdx.x == 0) *out = total;
}
extern "C" __global__ void spill(const float* x, float* out, const int* at) {
  float kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = x[i];
  for (int i = 0; i < 9; ++i) kept[at[i]] += x[at[i + 1]];
  *out = kept[at[10]];
}
extern "C" __global__ void widen(const __half* x, float* out) { out[threadIdx.x] = __half2float(x[threadIdx.x]); }
"""


@pytest.fixture(
    scope="module", params=["sm_90", *(pytest.param(arch, marks=pytest.mark.compile) for arch in ("sm_80", "sm_100"))]
)
def kernels(request, tmp_path_factory):
    """The kernels by name, and what ptxas says of them."""
    home = find_cuda_home()
    if home is None or find_cuobjdump() is None:
        pytest.skip("needs nvcc and cuobjdump")
    folder = tmp_path_factory.mktemp("sass")
    (folder / "k.cu").write_text(SOURCE)
    command = [home / "bin" / "nvcc", f"-arch={request.param}", "-cubin", "-Xptxas", "-v", "k.cu", "-o", "k.cubin"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        pytest.skip(f"this nvcc does not compile for {request.param}")
    found = read_kernels(folder / "k.cubin", request.param)
    if not found:
        pytest.skip(f"this cuobjdump does not know {request.param}")
    assert read_kernels((folder / "k.cubin").read_bytes(), request.param) == found
    return {kernel.kernel: kernel for kernel in found}, run.stdout + run.stderr


@pytest.fixture
def codes(kernels):
    return {name: kernel.code for name, kernel in kernels[0].items()}


def test_the_resources_of_every_kernel_are_what_ptxas_says(kernels):
    """On Hopper the cubin counts 1 KiB of reserved shared memory that the kernel did not ask for."""
    found, report = kernels
    parts = re.split(r"Compiling entry function '(\w+)' for 'sm_\d+'", report)[1:]
    said = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        patterns = (r"Used (\d+) registers", r"(\d+) bytes stack frame", r"(\d+) bytes smem")
        said[name] = [int(match[1]) if (match := re.search(each, text)) else 0 for each in patterns]
    assert set(said) == {"copy16", "copy2", "reverse", "spill", "sum", "widen"}
    assert {name: [one.registers, one.spill_bytes, one.shared_bytes] for name, one in found.items()} == said
    assert said["spill"][1] > 0 and said["reverse"][2] == 1024


@pytest.mark.parametrize(("kernel", "width"), [("copy16", 16), ("copy2", 2), ("widen", 2)])
def test_the_width_of_a_load(codes, kernel, width):
    (load,) = [access for access in codes[kernel].accesses if access.does == "load"]
    assert load == Access(does="load", bytes=width, count=1, in_loop=False)


def test_the_width_of_a_store(codes):
    widths = {
        name: [access.bytes for access in code.accesses if access.does == "store"] for name, code in codes.items()
    }
    assert widths == {"copy16": [16], "copy2": [2], "reverse": [4], "spill": [4], "sum": [4], "widen": [4]}


def test_shared_memory_barrier_and_special_function(codes):
    instructions = codes["reverse"].instructions
    wanted = ("global loads", "shared stores", "barriers", "shared loads", "special functions", "global stores")
    assert {kind: instructions.get(kind) for kind in wanted} == dict.fromkeys(wanted, 1)
    assert codes["reverse"].loops == 0


def test_a_loop_and_what_is_in_it(codes):
    assert codes["sum"].loops == 1
    assert [(access.does, access.in_loop) for access in codes["sum"].accesses] == [("load", True), ("store", False)]
    assert codes["sum"].instructions["fused multiply-adds"] == 1
    assert codes["sum"].instructions["shuffles"] == 5


def test_widening_a_half_is_a_conversion(codes):
    assert codes["widen"].instructions["conversions"] == 1
    assert "conversions" not in codes["copy2"].instructions
