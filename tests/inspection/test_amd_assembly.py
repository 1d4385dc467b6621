"""What is read from code for AMD's GPUs, which no test runs, is what its compiler says of it."""

from __future__ import annotations

import re

import pytest

from fib_rmsnorm.inspection.amd_assembly import read_kernels
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.facts import Access, Explanation
from fib_rmsnorm.machine.gpu_models import find_architecture, occupancy

pytestmark = pytest.mark.compile
ARCHS = ("gfx90a", "gfx942", "gfx950")
WARPS = 4


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Compile a kernel of triton_kernels.py for an architecture: what is read of it, and the assembly text."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    from inspection import triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    def compile_kernel(name, arch, cols, *, element="fp16"):
        kernel = getattr(triton_kernels, name)
        kinds = {"n": "i32", "COLS": "constexpr"}
        source = triton.compiler.ASTSource(
            kernel,
            {each: kinds.get(each, f"*{element}") for each in kernel.arg_names},
            {"COLS": cols},
            {(place,): [["tt.divisibility", 16]] for place in range(len(kernel.arg_names) - 1)},
        )
        done = triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": WARPS})
        (tmp_path / "kernel.amdgcn").write_text(done.asm["amdgcn"])
        (read,) = read_kernels(tmp_path / "kernel.amdgcn", arch)
        assert (read.kernel, read.arch) == (name, arch)
        return read, done.asm["amdgcn"]

    return compile_kernel


def findings_of(kernel):
    explanation = Explanation(
        solution="mine", definition="rmsnorm_d4096", language="triton", arch=kernel.arch, chip=None,
        multiprocessors=None, kernels=(kernel,), launches=(), work=(), conclusions=(), notes=(),
    )  # fmt: skip
    return [each.finding for each in conclude(explanation)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("cols", [8192, 16384, 65536])
def test_the_occupancy_is_the_compilers_own(compiled, arch, cols):
    """A block has a warp for each SIMD, so as many blocks fit as warps."""
    kernel, text = compiled("normalize", arch, cols)
    fits = occupancy(find_architecture(arch), 64 * WARPS, kernel.registers, 0, kernel.scalar_registers)
    assert fits.blocks == int(re.search(r"; Occupancy: (\d+)", text)[1])
    assert kernel.registers == int(re.search(r"; TotalNumVgprs: (\d+)", text)[1])
    assert (fits.blocks < 8) == (cols > 8192)


@pytest.mark.parametrize("arch", ARCHS)
def test_spilled_registers_are_scratch_memory(compiled, arch):
    kernel, text = compiled("normalize", arch, 1 << 18)
    assert kernel.spill_bytes == int(re.search(r"; ScratchSize: (\d+)", text)[1]) > 0
    assert kernel.code.instructions["spill loads"] > 0 < kernel.code.instructions["spill stores"]
    assert f"{kernel.spill_bytes} bytes of local memory per thread" in findings_of(kernel)[0]


@pytest.mark.parametrize("arch", ARCHS)
def test_wide_and_narrow_accesses(compiled, arch):
    wide, _ = compiled("normalize", arch, 2048)
    assert [(each.does, each.bytes, each.count) for each in wide.code.accesses] == [("load", 16, 1), ("store", 16, 1)]
    assert wide.code.instructions["shuffles"] >= 6 and wide.code.instructions["special functions"] >= 1
    assert findings_of(wide) == []
    narrow, _ = compiled("every_second", arch, 256)
    assert {each.bytes for each in narrow.code.accesses} == {2}
    assert findings_of(narrow) == ["2-byte loads and stores: 8 times the requests of 16-byte ones"]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_loop_and_what_is_in_it(compiled, arch):
    kernel, _ = compiled("add_up", arch, 1024, element="fp32")
    assert kernel.code.loops == 1
    load = Access(does="load", bytes=16, count=1, in_loop=True)
    assert kernel.code.accesses == (load, Access(does="store", bytes=16, count=1, in_loop=False))
    assert findings_of(kernel) == ["1 loop with 16 bytes of loads per thread and pass, and a wait in each"]
