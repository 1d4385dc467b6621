"""What is read of compiled kernels."""

import shutil
import subprocess

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.machine_code.resources import parse_ptxas_report, read_cubin_resources

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5spillPf' for 'sm_100'
ptxas info    : Function properties for _Z5spillPf
    912 bytes stack frame, 136 bytes spill stores, 136 bytes spill loads
ptxas info    : Used 64 registers, used 0 barriers, 912 bytes cumulative stack size
ptxas info    : Compile time = 59.289 ms
ptxas info    : Compiling entry function 'shared' for 'sm_80'
ptxas info    : Function properties for shared
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem, 360 bytes cmem[0]
"""
SOURCE = """\
extern "C" __global__ void plain(float* x) { x[threadIdx.x] = 0; }
extern "C" __global__ void shared(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[255 - threadIdx.x];
}
"""


def test_ptxas_report_gives_each_kernel_of_each_architecture() -> None:
    spill, shared = parse_ptxas_report(REPORT)
    assert (spill.kernel, spill.arch, spill.registers, spill.spill_bytes, spill.shared_bytes) == (
        "_Z5spillPf", "sm_100", 64, 912, 0,
    )  # fmt: skip
    assert (shared.kernel, shared.arch, shared.registers, shared.spill_bytes, shared.shared_bytes) == (
        "shared", "sm_80", 10, 0, 1024,
    )  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cubin_and_ptxas_agree(arch: str, tmp_path) -> None:
    """On Hopper the cubin counts 1 KiB of reserved shared memory that the kernel did not ask for."""
    home = find_cuda_home()
    if home is None:
        pytest.skip("no nvcc")
    (tmp_path / "k.cu").write_text(SOURCE)
    command = [home / "bin" / "nvcc", f"-arch={arch}", "-cubin", "-Xptxas", "-v", "k.cu", "-o", "k.cubin"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = read_cubin_resources((tmp_path / "k.cubin").read_bytes(), arch)
    if not found and shutil.which("cuobjdump") is None:
        pytest.skip("no cuobjdump")

    def figures(kernels):
        return {(k.kernel, k.arch, k.registers, k.spill_bytes, k.shared_bytes) for k in kernels}

    assert figures(found) == figures(parse_ptxas_report(run.stdout + run.stderr))
