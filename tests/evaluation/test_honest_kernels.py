"""Every way of writing a kernel that is right passes: tests/honest_kernels/ holds one folder for each."""

from __future__ import annotations

import importlib.util

import pytest
from registries import QUICK, TESTS, copy_kernels, make_registry

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated

FOLDER = TESTS / "honest_kernels"
BATCH_SIZES = (1, 8)
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and (HAS_TILELANG or path.name != "tilelang"))


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    registry = make_registry(tmp_path_factory.mktemp("honest") / "registry", 4096, BATCH_SIZES)
    folders = {solution.name: folder for folder, solution in copy_kernels(registry, FOLDER).items()}
    events = bench(registry, BenchOptions(settings=QUICK, device="cpu"))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return {(folders[trace.solution], trace.workload.axes["batch"]): trace.evaluation for trace in traces}


@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_passes(evaluations, name, batch):
    evaluation = evaluations[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0
    assert evaluation.performance.interpreted == (name == "triton")
    assert len(evaluation.log) < 100_000


def test_what_a_kernel_prints_is_in_its_log(evaluations):
    log = evaluations["prints", 1].log
    assert log.startswith("normalizing")
    assert "bytes left out" in log
