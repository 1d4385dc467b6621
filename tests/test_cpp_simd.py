"""The C++ Solution at every instruction set that this machine has, on OpenMP's threads and on its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.building.solution_cache import solution_cache
from fib_rmsnorm.registry import Registry, pack
from support.paths import REPOSITORY

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
SIMD = "rmsnorm_cpp_simd_v1"
SETS = ("avx512", "avx2", "neon", "portable")
SHAPES = [
    (0, 4096),
    *((batch, hidden) for batch in (1, 2, 5) for hidden in (1, 7, 64, 127, 129, 4095, 4096)),
    (300, 4096),  # on several threads
    (300, 1000),  # held as float32, but for the last columns
    (1100, 4096),  # past the caches
    (1099, 4097),  # rows that start anywhere
    (5, 32768),
]
EPS = 1e-6


def load():
    (solution,) = [solution for solution in pack(Registry(REPOSITORY)) if solution.name == SIMD]
    return load_native(build_native(solution, solution_cache(solution)).binary, "run")


def ordinals(values: torch.Tensor) -> torch.Tensor:
    """Integers that are as far apart as floats are in units in the last place."""
    bits = values.view(torch.int32 if values.element_size() == 4 else torch.int16).long()
    return torch.where(bits < 0, torch.iinfo(torch.int64).min // 2 ** (64 - 8 * values.element_size()) - bits, bits)


def make(shape, dtype, scale, offset):
    """Random values that start `offset` elements into their memory."""
    count = torch.Size(shape).numel()
    return (torch.randn(count + offset) * scale).to(dtype)[offset:].view(shape)


def check(run, batch, hidden, dtype, scale, offset):
    x, weight = make((batch, hidden), dtype, scale, offset), make((hidden,), dtype, 1, offset)
    x[1:2] = 0
    x[2:3, :1] = 60000
    memory = torch.full((offset + batch * hidden + 64,), 7, dtype=dtype)
    out = memory[offset:-64].view(batch, hidden)
    run(x, weight, EPS, out)
    exact = x.double()
    exact = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS) * weight.double()
    apart = (ordinals(out) - ordinals(exact.to(dtype))).abs()
    # float32 results are rounded three times, and rstd once before.
    assert batch == 0 or apart.max() <= (3 if dtype == torch.float32 else 1), (batch, hidden, dtype, scale, offset)
    assert (memory[:offset] == 7).all() and (memory[-64:] == 7).all()
    again = torch.empty_like(out)
    run(x, weight, EPS, again)
    assert torch.equal(again.view(torch.uint8), out.reshape(batch, hidden).view(torch.uint8))


def check_all():
    torch.manual_seed(0)
    run = load()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for batch, hidden in SHAPES:
            large = batch * hidden > 1 << 17
            for scale in (1,) if large else (1, 300, 1e-4, 1e-7):
                for offset in (0, 1) if large else (0, 1, 3):
                    check(run, batch, hidden, dtype, scale, offset)


def run_script(script: str, **environment: str) -> str:
    """What a process of its own prints: the instruction set is chosen once, and a child is forked."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def refusal() -> str:
    """What is said of an instruction set that there is not."""
    return run_script("import test_cpp_simd; test_cpp_simd.check_all()", FIB_RMSNORM_ISA="sse9")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_it_is_right_at_every_instruction_set(refusal, name):
    if name not in refusal:
        pytest.skip(f"this machine has no {name}")
    assert (
        run_script("import test_cpp_simd; test_cpp_simd.check_all(); print('right')", FIB_RMSNORM_ISA=name) == "right"
    )


FORKED = """
import os, torch, test_cpp_simd
run = test_cpp_simd.load()
test_cpp_simd.check(run, 300, 4096, torch.float16, 1, 0)
child = os.fork()
if child == 0:
    torch.set_num_threads(1)  # OpenMP's threads were not forked
    test_cpp_simd.check(run, 300, 4096, torch.float16, 1, 0)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
def test_a_forked_child_does_not_wait_for_threads_that_it_lacks():
    assert run_script(FORKED) == "0"


@pytest.mark.slow
def test_an_unknown_instruction_set_is_named(refusal):
    assert "FIB_RMSNORM_ISA is 'sse9', expected one of: " in refusal and "portable" in refusal
