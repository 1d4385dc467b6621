"""Kernels are compiled for a GPU that is not there, from the entry point alone."""

import subprocess
import sys
import textwrap

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.fake_cuda import call_with_fake_cuda
from fib_rmsnorm.machine.gpu_models import capability_of

ENTRIES = {
    "triton": """
        import triton, triton.language as tl

        @triton.jit
        def double(x_ptr, out_ptr, cols: tl.constexpr):
            at = tl.program_id(0) * cols + tl.arange(0, cols)
            tl.store(out_ptr + at, 2 * tl.load(x_ptr + at))

        def entry(x, out):
            assert x.is_cuda and torch.cuda.get_device_capability(x.device) == (8, 0)
            with torch.cuda.device_of(x):
                double[(x.shape[0],)](x, out, x.shape[1])
    """,
    "tilelang": """
        import tilelang, tilelang.language as T

        @tilelang.jit(out_idx=[-1])
        def double(cols):
            batch = T.dynamic("batch")

            @T.prim_func
            def main(x: T.Tensor((batch, cols), "float16"), out: T.Tensor((batch, cols), "float16")):
                with T.Kernel(batch, threads=128) as row:
                    for c in T.Parallel(cols):
                        out[row, c] = x[row, c] + x[row, c]

            return main

        def entry(x, out):
            assert x.is_cuda
            result = double(x.shape[1])(x)
            assert result.shape == x.shape and result.is_cuda
    """,
}
SESSIONS = {"triton": "TritonSession", "tilelang": "TileLangSession"}
CHECK = """
x = torch.empty(4, 1024, dtype=torch.float16)
session = Session("sm_80")
[launch] = session.call(entry, (x, x))
assert (launch.kernel_number, launch.grid, launch.block) == (0, (4, 1, 1), (128, 1, 1)), launch
[again] = session.call(entry, (torch.empty(6, 1024, dtype=torch.float16),) * 2)
assert (again.kernel_number, again.grid) == (0, (6, 1, 1)), again
[kernel] = session.kernels
assert kernel.arch == "sm_80" and kernel.code, kernel
assert not torch.cuda.is_initialized()
print(kernel.kernel, kernel.registers, kernel.spill_bytes, kernel.shared_bytes)
"""


@pytest.mark.compile
@pytest.mark.parametrize("language", ENTRIES)
def test_kernels_are_compiled_from_the_entry_point(language: str, tmp_path) -> None:
    pytest.importorskip(language)
    if language == "tilelang" and find_cuda_home() is None:
        pytest.skip("no nvcc")
    module = f"fib_rmsnorm.inspection.{language}_aot"
    header = f"import torch\nfrom {module} import {SESSIONS[language]} as Session\n"
    script = tmp_path / "script.py"  # a file: both languages read the source of their kernels
    script.write_text(header + textwrap.dedent(ENTRIES[language]) + CHECK)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(("double", "main"))  # TileLang logs to stdout


def test_nothing_of_the_pretence_remains() -> None:
    import torch

    before = torch.cuda.is_available()
    seen = []
    call_with_fake_cuda(lambda x: seen.append((x.device.type, torch.cuda.is_available())), [torch.empty(2)], "sm_90")
    assert seen == [("cuda", True)]
    assert torch.cuda.is_available() is before


@pytest.mark.parametrize(("arch", "capability"), [("sm_90", (9, 0)), ("sm_100a", (10, 0)), ("sm_120", (12, 0))])
def test_capability_is_read_from_the_name(arch: str, capability: tuple[int, int]) -> None:
    assert capability_of(arch) == capability


def test_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="sm_90"):
        capability_of("hopper")
