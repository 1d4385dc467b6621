"""Every way of writing a kernel that is right passes: tests/honest_kernels/ holds one folder for each."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from registries import QUICK, TESTS, copy_kernels, make_registry

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.evaluation.scheduler import Evaluated

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# All of the kernels are evaluated when the first test begins.
pytestmark = pytest.mark.timeout(900)

FOLDER = TESTS / "honest_kernels"
BATCH_SIZES = (1, 8)
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
SPECS = {path.parent.name: tomllib.loads(path.read_text())["spec"] for path in sorted(FOLDER.glob("*/solution.toml"))}
NAMES = [
    name
    for name, spec in SPECS.items()
    if "cpu" in spec["target_hardware"]
    and spec.get("binding") != "torch"  # which takes a minute to compile
    and (HAS_TILELANG or spec["language"] != "tilelang")
]
NAMES_ON_CUDA = [name for name, spec in SPECS.items() if "cuda" in spec["target_hardware"]]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    return evaluate_all(tmp_path_factory, "cpu", NAMES)


@pytest.fixture(scope="module")
def evaluations_on_cuda(tmp_path_factory):
    return evaluate_all(tmp_path_factory, "cuda:0", NAMES_ON_CUDA)


def evaluate_all(tmp_path_factory, device, names):
    registry = make_registry(tmp_path_factory.mktemp("honest") / "registry", 4096, BATCH_SIZES)
    folders = {solution.name: folder for folder, solution in copy_kernels(registry, FOLDER).items() if folder in names}
    events = bench(registry, BenchOptions(Selection(solutions=tuple(folders)), QUICK, device))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return {(folders[trace.solution], trace.workload.axes["batch"]): trace.evaluation for trace in traces}


@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_passes(evaluations, name, batch):
    evaluation = evaluations[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0
    assert evaluation.performance.interpreted == (SPECS[name]["language"] == "triton")
    assert len(evaluation.log) < 100_000


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("name", NAMES_ON_CUDA)
def test_passes_on_a_gpu(evaluations_on_cuda, name, batch):
    evaluation = evaluations_on_cuda[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0


@pytest.mark.slow
def test_a_torch_binding_passes_and_its_library_calls_are_reported(tmp_path_factory):
    found = evaluate_all(tmp_path_factory, "cpu", ["cpp_torch_binding"])
    for batch in BATCH_SIZES:
        evaluation = found["cpp_torch_binding", batch]
        assert evaluation.status.value == "PASSED", evaluation.log
        assert "aten::rsqrt" in evaluation.performance.library_calls


def test_what_a_kernel_prints_is_in_its_log(evaluations):
    log = evaluations["prints", 1].log
    assert log.startswith("normalizing")
    assert "bytes left out" in log


def test_no_honest_kernel_calls_a_library_of_kernels(evaluations):
    """Copies and casts are not kernels of torch's that do the work."""
    for name in NAMES:
        calls = evaluations[name, 8].performance.library_calls
        assert calls == (None if SPECS[name]["language"] == "python" else [])
