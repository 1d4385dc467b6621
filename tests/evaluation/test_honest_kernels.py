"""Every correct kernel passes, however it is written."""

from __future__ import annotations

import pytest

from fib_rmsnorm.evaluation.timing import cupti_fault
from support.honest_kernels import BATCH_SIZES, BATCH_SIZES_ON_CUDA, KERNELS, NAMES, NAMES_ON_CUDA, evaluate_all

# All of a fixture's kernels are evaluated when the first test asks for it.
pytestmark = pytest.mark.timeout(900)

FEW = ("cpp_threads", "prints", "triton_row", "value_returning", "workspace")
FEW_BATCH = 8
OTHERS = [name for name in NAMES if name not in FEW]


@pytest.fixture(scope="module")
def few(tmp_path_factory, lent):
    return evaluate_all(tmp_path_factory.mktemp("honest") / "registry", FEW, "cpu", (FEW_BATCH,))


@pytest.fixture(scope="module")
def others(tmp_path_factory, lent):
    return evaluate_all(tmp_path_factory.mktemp("honest") / "registry", OTHERS, "cpu", BATCH_SIZES)


@pytest.fixture(scope="module")
def evaluations_on_cuda(tmp_path_factory):
    return evaluate_all(tmp_path_factory.mktemp("honest") / "registry", NAMES_ON_CUDA, "cuda:0", BATCH_SIZES_ON_CUDA)


def assert_passed(evaluation, name):
    assert evaluation.status.value == "PASSED", evaluation.log
    is_interpreted = KERNELS[name].language == "triton"
    assert evaluation.performance.interpreted == is_interpreted
    assert (evaluation.performance.latency_ms > 0) != is_interpreted
    assert len(evaluation.log) < 100_000
    # Copies and casts are not kernels of torch's that do the work.
    assert evaluation.performance.library_calls == (None if KERNELS[name].language == "python" else [])


@pytest.mark.parametrize("name", FEW)
def test_passes(few, name):
    assert_passed(few[name, FEW_BATCH], name)


@pytest.mark.compile
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("name", OTHERS)
def test_each_of_the_others_passes(others, name, batch):
    assert_passed(others[name, batch], name)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCH_SIZES_ON_CUDA)
@pytest.mark.parametrize("name", NAMES_ON_CUDA)
def test_passes_on_a_gpu(evaluations_on_cuda, name, batch):
    evaluation = evaluations_on_cuda[name, batch]
    assert evaluation.status.value == "PASSED", evaluation.log
    assert evaluation.performance.latency_ms > 0


@pytest.mark.compile
def test_a_torch_binding_passes_and_its_library_calls_are_reported(tmp_path):
    found = evaluate_all(tmp_path / "registry", ["cpp_torch_binding"], "cpu")
    for batch in BATCH_SIZES:
        evaluation = found["cpp_torch_binding", batch]
        assert evaluation.status.value == "PASSED", evaluation.log
        assert "aten::rsqrt" in evaluation.performance.library_calls


def test_what_a_kernel_prints_is_in_its_log(few):
    log = few["prints", FEW_BATCH].log
    assert log.startswith("normalizing")
    assert "bytes left out" in log


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


def test_a_cpu_launches_no_kernels(few):
    assert few["cpp_threads", FEW_BATCH].performance.launches is None
