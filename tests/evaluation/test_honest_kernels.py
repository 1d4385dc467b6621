"""Every correct kernel passes, however it is written."""

from __future__ import annotations

import pytest

from fib_rmsnorm.evaluation.timing import cupti_fault
from support.honest_kernels import BATCH_SIZES, BATCH_SIZES_ON_CUDA, KERNELS, NAMES, NAMES_ON_CUDA, evaluate_all

# All of the kernels are evaluated when the first test begins.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=(pytest.param(1, marks=pytest.mark.slow), 8))
def batch(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory, batch):
    return evaluate_all(tmp_path_factory.mktemp("honest") / "registry", NAMES, "cpu", (batch,))


@pytest.fixture(scope="module")
def evaluations_on_cuda(tmp_path_factory):
    return evaluate_all(tmp_path_factory.mktemp("honest") / "registry", NAMES_ON_CUDA, "cuda:0", BATCH_SIZES_ON_CUDA)


@pytest.mark.parametrize("name", NAMES)
def test_passes(evaluations, name, batch):
    evaluation = evaluations[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0
    assert evaluation.performance.interpreted == (KERNELS[name].language == "triton")
    assert len(evaluation.log) < 100_000


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCH_SIZES_ON_CUDA)
@pytest.mark.parametrize("name", NAMES_ON_CUDA)
def test_passes_on_a_gpu(evaluations_on_cuda, name, batch):
    evaluation = evaluations_on_cuda[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0


@pytest.mark.slow
def test_a_torch_binding_passes_and_its_library_calls_are_reported(tmp_path):
    found = evaluate_all(tmp_path / "registry", ["cpp_torch_binding"], "cpu")
    for batch in BATCH_SIZES:
        evaluation = found["cpp_torch_binding", batch]
        assert evaluation.status.value == "PASSED", evaluation.log
        assert "aten::rsqrt" in evaluation.performance.library_calls


def test_what_a_kernel_prints_is_in_its_log(evaluations, batch):
    log = evaluations["prints", batch].log
    assert log.startswith("normalizing")
    assert "bytes left out" in log


def test_no_honest_kernel_calls_a_library_of_kernels(evaluations, batch):
    """Copies and casts are not kernels of torch's that do the work."""
    for name in NAMES:
        calls = evaluations[name, batch].performance.library_calls
        assert calls == (None if KERNELS[name].language == "python" else [])


@pytest.mark.gpu
def test_a_trace_tells_what_was_launched_on_a_gpu(tmp_path):
    if fault := cupti_fault():
        pytest.skip(fault)
    found = evaluate_all(tmp_path / "registry", ["cuda_two_kernels"], "cuda:0")
    for batch in BATCH_SIZES:
        evaluation = found["cuda_two_kernels", batch]
        assert evaluation.status.value == "PASSED", evaluation.log
        launches = evaluation.performance.launches
        for launch, name, shared_bytes in zip(launches, ("Reduce", "Scale"), (32, 0), strict=True):
            assert name in launch.name
            assert (launch.grid, launch.block) == ((batch, 1, 1), (256, 1, 1))
            assert 0 < launch.registers < 256
            assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (shared_bytes, 0)


def test_a_cpu_launches_no_kernels(evaluations, batch):
    assert evaluations["cpp_threads", batch].performance.launches is None
