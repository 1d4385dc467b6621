"""Every correct kernel passes, however it is written."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from support.kernels import BATCH_SIZES_ON_CUDA, add_kernels, list_cases, made_for, read_kernels
from support.registries import bench_all, make_registry

# All of a fixture's kernels are evaluated when the first test asks for it.
pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 400.0
"""For compilers on a loaded machine: torch's headers take one of them 45 s alone, and over 120 beside others."""
KERNELS = read_kernels("honest")
FEW = ("cpp_threads", "prints", "triton_row", "value_returning", "workspace")
OTHERS = [name for name in made_for("cpu", KERNELS) if name not in FEW]
RUNS: dict[str, tuple[Sequence[str], str, tuple[int, ...], Any]] = {
    "few": (FEW, "cpu", (8,), []),
    "others": (OTHERS, "cpu", (1, 8), pytest.mark.compile),
    "on a GPU": (made_for("cuda", KERNELS), "cuda:0", BATCH_SIZES_ON_CUDA, pytest.mark.gpu),
}
"""The kernels of a run, its device and batches, and the marks of its tests."""


def evaluate_all(root, names, device, batches):
    registry = make_registry(root, 4096, batches)
    solutions = add_kernels(registry, (KERNELS[name] for name in names))
    kernel_of = {solution.name: name for name, solution in solutions.items()}
    traces = bench_all(registry, device=device, timeout_s=PATIENCE_S)
    return {(kernel_of[trace.solution], trace.workload.axes["batch"]): trace.evaluation for trace in traces}


@pytest.fixture(scope="module")
def evaluations_of(tmp_path_factory, lent):
    """Evaluate the kernels of a run once, for whichever of its tests comes first."""
    return cache(lambda run: evaluate_all(tmp_path_factory.mktemp("honest") / "registry", *RUNS[run][:3]))


@pytest.mark.parametrize(("run", "name", "batch"), list_cases(RUNS))
def test_passes(evaluations_of, run, name, batch):
    evaluation = evaluations_of(run)[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    if run == "on a GPU":
        assert evaluation.performance.latency_ms > 0
        return
    is_interpreted = KERNELS[name].language == "triton"
    assert evaluation.performance.interpreted == is_interpreted
    assert (evaluation.performance.latency_ms > 0) != is_interpreted
    assert len(evaluation.log) < 100_000
    library_calls = evaluation.performance.library_calls
    if KERNELS[name].spec.binding == "torch":
        assert "aten::rsqrt" in library_calls
    else:  # copies and casts are not kernels of torch's that do the work
        assert library_calls == (None if KERNELS[name].language == "python" else [])


def test_what_a_kernel_prints_is_in_its_log(evaluations_of):
    log = evaluations_of("few")["prints", 8].log
    assert log.startswith("normalizing")
    assert "bytes left out" in log
