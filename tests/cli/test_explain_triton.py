"""What `explain` tells of a Triton kernel by Triton's representation of it: traffic in loops, and offsets that wrap."""

import pytest

from support.full_registry import DEFINITION
from support.paths import REPOSITORY
from support.registries import make_registry

pytest.importorskip("triton")
pytestmark = pytest.mark.compile
H200, MI300X = ("sm_90", "H200", 132), ("gfx942", "MI300X", 304)
NORMS = REPOSITORY / "solutions" / "fib-rmsnorm" / "norm"
TRITON_NORMS = sorted(folder.name for folder in NORMS.glob("*/*_triton_row_v1"))


@pytest.mark.parametrize("name", TRITON_NORMS)
def test_a_kernel_moves_the_same_bytes_on_every_gpu(fib, name):
    """The requests differ, as a wavefront has 64 threads; an fp8 kernel's scale is stored by all threads."""
    options = ("--arch", "sm_90,gfx942", "--batch-sizes", "512", "--root", REPOSITORY, "--json")
    found = fib("explain", name, *options).answer
    assert [(each["arch"], each["chip"], each["multiprocessors"]) for each in found] == [H200, MI300X]
    here, there = ([launch["traffic"] for launch in each["launches"]] for each in found)
    assert here and len(here) == len(there)
    for nvidia, amd in zip(here, there, strict=True):
        assert (nvidia is None) == (amd is None) == ("backward" in name)
        if nvidia:
            assert nvidia["load_sectors_per_row"] == amd["load_sectors_per_row"]
            assert nvidia["load_requests_per_row"] == 2 * amd["load_requests_per_row"]
            if "per_row" not in name:
                assert nvidia["store_sectors_per_row"] == amd["store_sectors_per_row"]
    kernels = [kernel for each in found for kernel in each["kernels"]]
    assert {(kernel["spill_bytes"], kernel["wraps_at"]) for kernel in kernels} == {(0, None)}


PTX = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, N: tl.constexpr):
    cols = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + cols).to(tl.float32)
    y = tl.inline_asm_elementwise("rsqrt.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + cols, y.to(tl.float16))


def run(x, weight, eps):
    out = torch.empty_like(x)
    scale[(x.shape[0],)](x, out, N=x.shape[1])
    return out
"""


def test_inline_assembly_of_another_vendor_does_not_compile(fib, full_registry, tmp_path):
    """Triton's compiler for AMD's GPUs prints an error and goes on without the code, which its cache then has."""
    (tmp_path / "kernel.py").write_text(PTX)
    for _ in range(2):
        fault = fib("explain", tmp_path / "kernel.py", "--definition", DEFINITION, "--arch", "gfx942").kernel_fault
        assert fault.startswith("kernel.py does not compile for gfx942: error: could not allocate output register")
    assert fib("explain", tmp_path / "kernel.py", "--definition", DEFINITION, "--arch", "sm_90").code == 0


LOOPS = """
import torch
import triton
import triton.language as tl


@triton.jit
def norm_rows(x_ptr, weight_ptr, out_ptr, n, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = 0.0
    for i in {loop}:
        cols = {start} + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < n, other=0.0).to(tl.float32)
        squares += tl.sum(x * x)
    rstd = tl.rsqrt(squares / n + eps)
    for i in {loop}:
        cols = {start} + tl.arange(0, BLOCK)
        w = tl.load(weight_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * N + cols, (rstd * w).to(tl.float16), mask=cols < n)


def run(x, weight, eps):
    out = torch.empty_like(x)
    norm_rows[(x.shape[0],)](x, weight, out, x.shape[1], eps, N=x.shape[1], BLOCK=1024)
    return out
"""
MODULE = """
class Norm(torch.nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps, self.weight = eps, torch.nn.Parameter(torch.ones(dim))
    def forward(self, x):
        return launch(x, self.weight, self.eps)
"""


@pytest.mark.parametrize("hidden", [4096, 5000])
def test_a_loop_whose_bound_is_an_argument_is_counted_like_one_that_is_unrolled(fib, tmp_path, hidden):
    """The compiler unrolls a static range, so its accesses are counted in the code."""
    registry = make_registry(tmp_path / "registry", hidden)

    def traffic_of(loop, start="i", source=LOOPS):
        (tmp_path / "kernel.py").write_text(source.format(loop=loop, start=start))
        options = ("--root", registry.root, "--arch", "sm_90,gfx942", "--batch-sizes", "8", "--json")
        found = fib("explain", tmp_path / "kernel.py", *options).answer
        return [each["launches"][0]["traffic"] for each in found]

    unrolled = traffic_of("tl.static_range(0, N, BLOCK)")
    passes = -(-hidden // 1024)
    assert [each["load_sectors_per_row"] for each in unrolled] == [2 * passes * 64] * 2
    assert traffic_of("range(0, n, BLOCK)") == unrolled
    assert traffic_of("range(tl.cdiv(n, BLOCK))", "i * BLOCK") == unrolled
    assert traffic_of("range(row, n, BLOCK)") == [None, None]
    assert traffic_of("range(0, n, BLOCK)", source=LOOPS.replace("def run", "def launch") + MODULE) == unrolled


ROW_OFFSETS = """
import torch
import triton
import triton.language as tl


@triton.jit
def start_of(row, stride):
    return row * stride  # line 9


@triton.jit
def in_a_loop(x_ptr, out_ptr, batch, stride, N: tl.constexpr):
    cols = tl.arange(0, N)
    for row in range(tl.program_id(0), batch, tl.num_programs(0)):
        start = start_of(row, stride).to(tl.int64)
        tl.store(out_ptr + start + cols, tl.load(x_ptr + start + cols))


@triton.jit
def in_tiles(x_ptr, out_ptr, batch, stride, N: tl.constexpr):
    rows, cols = tl.program_id(0) * 2 + tl.arange(0, 2)[:, None], tl.arange(0, N)[None, :]
    for _ in range(tl.program_id(0) * 2, batch, tl.num_programs(0) * 2):
        within = rows * N + cols  # line 24
        tl.store(out_ptr + within, tl.load(x_ptr + within, mask=rows < batch), mask=rows < batch)
        rows += tl.num_programs(0) * 2


def run(x, weight, eps):
    out = torch.empty_like(x)
    for kernel in in_a_loop, in_tiles:
        kernel[(4,)](x, out, x.shape[0], x.stride(0), N=x.shape[1])
    return out
"""


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_offsets_of_rows_in_32_bits_are_named_with_their_line(fib, tmp_path, arch):
    (tmp_path / "kernel.py").write_text(ROW_OFFSETS)
    registry = make_registry(tmp_path / "registry", 4096)
    options = ("--root", registry.root, "--arch", arch, "--batch-sizes", "8", "--json")
    record = fib("explain", tmp_path / "kernel.py", *options).answer
    advice = "compute the offsets of rows in 64 bits"
    assert [(each["about"], each["finding"]) for each in record["conclusions"] if each["advice"] == advice] == [
        ("#0 in_a_loop", "beyond 2^31 elements, kernel.py:9 wraps in 32 bits"),
        ("#1 in_tiles", "beyond 2^31 elements, kernel.py:24 wraps in 32 bits"),
    ]
