"""`fib-rmsnorm try` with several kernels: side by side, ranked, and a fault of one is told once."""

from pathlib import Path

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.reports.text.units import count
from support.hanging import when_printed
from support.registries import CRASHES, HANGS, NO_EPS, RIGHT, UNNAMED

BINARY = b"\xff\xfe\x00"
KERNELS = {"crashes.py": CRASHES, "no_eps.py": NO_EPS, "right.py": RIGHT, "syntax.py": "def run(x, weight, eps:\n"}


@pytest.fixture
def try_several(fib, registry):
    """Try kernels with these sources on the CPU, at two rows."""

    def run(sources: dict[str, str | bytes], *options: str):
        for name, source in sources.items():
            path = Path(name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
        return fib("try", *sources, "--device", "cpu", "--batch-sizes", "2", *options)

    return run


def test_kernels_are_ranked_and_counted(try_several):
    outcome = try_several({**KERNELS, "binary.py": BINARY, "unnamed.py": UNNAMED}, "--json")
    assert outcome.code == 1 and len(outcome.lines) == 1
    found = outcome.json
    kernels = found["kernels"]
    assert {kernel["kernel"] for kernel in kernels[:2]} == {"right.py", "unnamed.py"}
    assert [(kernel["kernel"], kernel["status"]) for kernel in kernels[2:]] == [
        ("crashes.py", "RUNTIME_ERROR"),
        ("no_eps.py", "INCORRECT_NUMERICAL"),
        ("syntax.py", "COMPILE_ERROR"),
        ("binary.py", "COMPILE_ERROR"),
    ]
    speedups = [kernel["speedup"] for kernel in kernels[:2]]
    assert speedups == sorted(speedups, reverse=True)
    fast = {str(p): sum(speedup > p for speedup in speedups) / 6 for p in (0, 1, 2)}
    assert found["fast_p"] == fast and fast["0"] == 2 / 6
    (unnamed,) = [kernel for kernel in kernels if kernel["kernel"] == "unnamed.py"]
    assert unnamed["note"] == "Called as norm(weight, x, eps)"
    assert kernels[3]["mistake"] == "the output equals RMSNorm without eps"
    assert (kernels[4]["file"], kernels[4]["line"]) == ("syntax.py", 1)


def test_a_check_tells_each_fault_once_below_the_correct_ones(try_several, monkeypatch):
    """One that hangs costs one timeout."""
    when_printed(monkeypatch, "hangs")
    outcome = try_several({**KERNELS, "hangs.py": HANGS}, "--check")
    assert outcome.code == 1
    header, *rows, _, summary = outcome.lines
    assert header.split() == ["kernel", "status", "remark"]
    assert [row.split()[:2] for row in rows] == [
        ["right.py", "PASSED"],
        ["crashes.py", "RUNTIME_ERROR"],
        ["no_eps.py", "INCORRECT_NUMERICAL"],
        ["syntax.py", "COMPILE_ERROR"],
        ["hangs.py", "TIMEOUT"],
    ]
    assert "timed out after" in rows[4]
    assert "the process died of SIGSEGV" in rows[1] and "'(' was never closed" in rows[3]
    assert summary == "Correct, of 5 kernels: fast_0 0.20"
    told = [line.partition(" after ")[0] for line in outcome.err.splitlines()]
    assert sorted(told) == [
        "crashes.py: RUNTIME_ERROR",
        "hangs.py: TIMEOUT",
        "no_eps.py: INCORRECT_NUMERICAL",
        "right.py: correct",
        "syntax.py: COMPILE_ERROR",
    ]


def test_what_the_device_cannot_run_is_listed_and_the_others_are_judged(try_several):
    cuda = make_starting_kernel(RmsNorm().define(128), "cuda").text
    needs_gpu = {"a.cu": cuda, "b.py": "def run(x, weight, eps):\n    return x.cuda()\n"}
    for others, code in ({"right.py": RIGHT}, 2), ({"right.py": RIGHT, "wrong.py": NO_EPS}, 1):
        outcome = try_several({**needs_gpu, **others}, "--check")
        assert outcome.code == code and outcome.row("right.py", "PASSED")
        assert outcome.lines[-1].startswith(f"Correct, of {count(len(others), 'kernel')}: ")
        for name in needs_gpu:
            assert "needs an NVIDIA GPU to run" in outcome.row(name, "SKIPPED")


def test_kernels_of_one_name_are_told_apart_by_their_paths(try_several):
    kernels = {"a/kernel.py": RIGHT, "b/kernel.py": NO_EPS, "b/other.py": NO_EPS}
    names = [kernel["kernel"] for kernel in try_several(kernels, "--check", "--json").json["kernels"]]
    assert names == ["a/kernel.py", "b/kernel.py", "other.py"]
