"""What is read from code for AMD's GPUs, which no test runs, is what its compiler says of it."""

import re
from pathlib import Path

import pytest

from fib_rmsnorm.inspection.amd_assembly import read_kernels
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.facts import Access, Explanation
from fib_rmsnorm.machine.gpu_models import find_architecture, occupancy
from support.command_line import run_python

pytestmark = pytest.mark.compile
ARCHS = ("gfx90a", "gfx942", "gfx950")
WARPS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The assembly of the kernels of triton_kernels.py, by a process of its own."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("amd")
    run_python(Path(__file__).with_name("triton_kernels.py"), folder, TRITON_CACHE_DIR=str(folder / "cache"))
    return folder


@pytest.fixture
def compiled(folder):
    """What is read of a kernel, and its assembly text."""

    def read(name, arch, cols):
        text = (folder / f"{name}.{cols}.{arch}.amdgcn").read_text()
        (kernel,) = read_kernels(text, arch)
        assert (kernel.kernel, kernel.arch) == (name, arch)
        return kernel, text

    return read


def findings_of(kernel):
    explanation = Explanation(
        solution="mine", definition="rmsnorm_d4096", language="triton", arch=kernel.arch, kernels=(kernel,)
    )
    return [each.finding for each in conclude(explanation)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("cols", [8192, 16384, 65536])
def test_the_occupancy_is_the_compilers_own(compiled, arch, cols):
    """A block has a warp for each SIMD, so as many blocks fit as warps."""
    kernel, text = compiled("normalize", arch, cols)
    fits = occupancy(find_architecture(arch), 64 * WARPS, kernel.registers, 0, kernel.scalar_registers)
    assert fits.blocks == int(re.search(r"; Occupancy: (\d+)", text)[1])
    assert kernel.registers == int(re.search(r"; TotalNumVgprs: (\d+)", text)[1])
    assert kernel.scalar_registers == int(re.search(r"; TotalNumSgprs: (\d+)", text)[1])
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
    kernel, _ = compiled("add_up", arch, 1024)
    assert kernel.code.loops == 1
    load = Access(does="load", bytes=16, count=1, in_loop=True)
    assert kernel.code.accesses == (load, Access(does="store", bytes=16, count=1, in_loop=False))
    assert findings_of(kernel) == ["1 loop with 16 bytes of loads per thread and pass, and a wait in each"]
