"""What host code asks the runtime before it launches is answered as the named GPU would."""

import contextlib
import re
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.compile_process import compile_solution
from fib_rmsnorm.inspection.facts import Compile
from fib_rmsnorm.inspection.fake_cuda import AotSession
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from support.command_line import run_python
from support.registries import make_registry

SOURCE = Path(__file__).with_name("persistent.cu")


@pytest.mark.parametrize(
    ("arch", "blocks"), [pytest.param("sm_80", 2 * 108, marks=pytest.mark.compile), ("sm_90", 3 * 132)]
)
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.compile
def test_launches_that_follow_the_device(arch, blocks, tmp_path):
    """64 KiB of shared memory fit twice on an A100's multiprocessor and three times on an H100's."""
    definition = RmsNorm().define(128)
    solution = draft_solution(make_registry(tmp_path / "registry"), KernelFile(SOURCE), definition)
    workloads = generate_workloads(definition, [8, 300])
    compiled = compile_solution(
        Compile(definition=definition, solution=solution, workloads=workloads, arch=arch, cache=tmp_path)
    )
    assert compiled.notes == ()
    names = [kernel.kernel for kernel in compiled.kernels]
    told = [
        [(names[one.kernel_number], one.grid, one.block, one.dynamic_shared_bytes) for one in each]
        for each in compiled.launches
    ]
    assert told == [
        [
            ("persistent", (blocks, 1, 1), (32, 8, 1), 64 << 10),
            ("plain", (rows, 1, 1), (128, 1, 1), 0),
            ("plain", (rows, 2, 1), (64, 1, 1), 16),  # by the driver, a kernel
            ("plain", (rows, 3, 1), (32, 1, 1), 0),  # and a function
        ]
        for rows in (8, 300)
    ]


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.compile
def test_offsets_of_rows_in_32_bits_are_named_with_their_line(fib, tmp_path):
    """Of each kernel that has one, and of no other: offsets of vectors and unsigned ones wrap later."""
    registry, source = make_registry(tmp_path / "registry", 512), SOURCE.with_name("row_offsets.cu")
    options = ("--root", registry.root, "--arch", "sm_90", "--batch-sizes", "8", "--json")
    outcome = fib("explain", source, *options)
    assert outcome.code == 0, outcome.err
    kernel, expected = "", dict[str, str | None]()
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if found := re.match(r"__global__ void (\w+)", line):
            kernel = found[1]
            expected[kernel] = None
        if line.endswith("// wraps"):
            expected[kernel] = f"row_offsets.cu:{number}"
    assert {each["kernel"]: each["wraps_at"] for each in outcome.json["kernels"]} == expected
    findings = [each["finding"] for each in outcome.json["conclusions"]]
    assert f"beyond 2^31 elements, {expected['flat']} wraps in 32 bits" in findings


RETURNS = """
import tilelang
import tilelang.language as T
import torch
from fib_rmsnorm.inspection.tilelang_aot import TileLangSession


@tilelang.jit(out_idx=[-1])
def double(cols):
    batch = T.dynamic("batch")

    @T.prim_func
    def main(x: T.Tensor((batch, cols), "float16"), out: T.Tensor((batch, cols), "float16")):
        with T.Kernel(batch, threads=128) as row:
            for c in T.Parallel(cols):
                out[row, c] = x[row, c] + x[row, c]

    return main


def entry(x):
    result = double(x.shape[1])(x)
    assert result.shape == x.shape and result.is_cuda


[launch] = TileLangSession("sm_80").call(entry, (torch.empty(6, 1024, dtype=torch.float16),))
assert (launch.grid, launch.block) == ((6, 1, 1), (128, 1, 1)), launch
"""


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_a_tilelang_kernel_may_return_its_output(tmp_path):
    """Others: tests/cli/test_explain.py."""
    pytest.importorskip("tilelang")
    (tmp_path / "script.py").write_text(RETURNS)  # a file: TileLang reads the source of its kernels
    run_python(tmp_path / "script.py")


@pytest.mark.parametrize(
    ("arch", "said"), [("sm_90", ((9, 0), 132, 32, 65536, False)), ("gfx942", ((9, 4), 304, 64, 131072, True))]
)
def test_python_finds_the_named_gpu_and_nothing_of_the_pretence_remains(arch, said):
    import torch

    class Session(AotSession):
        compiling = contextlib.nullcontext

    before, seen = (torch.cuda.is_available(), torch.version.hip), []

    def look(x):
        gpu = torch.cuda.get_device_properties(x.device)
        sizes = (gpu.multi_processor_count, gpu.warp_size, vars(gpu)["regs_per_multiprocessor"])
        seen.append((torch.cuda.get_device_capability(x.device), *sizes, torch.version.hip is not None))
        assert torch.cuda.is_available() and x.is_cuda

    Session(arch).call(look, [torch.empty(2)])
    assert seen == [said]
    assert (torch.cuda.is_available(), torch.version.hip) == before
