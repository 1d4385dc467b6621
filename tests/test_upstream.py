"""flashinfer-bench reads what we write: it loads the registry, ranks our traces and runs our solutions."""

import shutil

import pytest
import torch
from flashinfer_bench.data import Correctness as UpstreamCorrectness
from flashinfer_bench.data import TraceSet

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.schema import Correctness
from support.kernels import add_kernels, read_kernels
from support.paths import REPOSITORY
from support.registries import RIGHT, WRONG, add_kernel, bench_all, make_registry, pack_all
from support.tunable_solution import TABLE, folder_of, make_tunable

# flashinfer, which upstream imports, calls what its own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SLOW = RIGHT.replace("    x_fp32 = x.float()\n", "    import time\n\n    time.sleep(0.05)\n    x_fp32 = x.float()\n")
CPP = "honest_cpp_cpp_header_in_a_folder"


@pytest.fixture(scope="module")
def registry(tmp_path_factory, lent):
    """A registry after a bench: a slow kernel, a wrong one, and C++ with destination passing."""
    registry = make_registry(tmp_path_factory.mktemp("upstream") / "registry", 4096, (1, 8))
    add_kernels(registry, [read_kernels("honest")["cpp_header_in_a_folder"]])
    add_kernel(registry, "slow_v1", SLOW)
    add_kernel(registry, "wrong_v1", WRONG)
    bench_all(registry)
    return registry


def test_upstream_loads_the_registry_after_a_bench_and_finds_the_winner(registry):
    trace_set = TraceSet.from_path(str(registry.root))
    assert set(trace_set.definitions) == {"rmsnorm_d4096"}
    assert {solution.name for solution in trace_set.solutions["rmsnorm_d4096"]} == {CPP, "slow_v1", "wrong_v1"}
    assert [trace.workload.axes for trace in trace_set.workloads["rmsnorm_d4096"]] == [{"batch": 1}, {"batch": 8}]
    found = {(t.solution, t.workload.axes["batch"]): t.evaluation for t in trace_set.traces["rmsnorm_d4096"]}
    assert {key: evaluation.status.value for key, evaluation in found.items()} == {
        (CPP, 1): "PASSED",
        (CPP, 8): "PASSED",
        ("slow_v1", 1): "PASSED",
        ("slow_v1", 8): "PASSED",
        ("wrong_v1", 1): "INCORRECT_NUMERICAL",
        ("wrong_v1", 8): "INCORRECT_NUMERICAL",
    }
    assert found[CPP, 1].performance.latency_ms > 0
    assert trace_set.get_best_trace("rmsnorm_d4096", axes={"batch": 8}, max_rel_error=1.0).solution == CPP


def test_upstream_loads_this_repository_with_its_published_traces(tmp_path):
    for folder in ("definitions", "solutions", "workloads", "traces/published"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    loaded = TraceSet.from_path(str(tmp_path))
    for definition, traces in loaded.traces.items():
        assert {trace.solution for trace in traces} <= {each.name for each in loaded.solutions[definition]}
    assert {trace.evaluation.environment.hardware for trace in loaded.traces["rmsnorm_d4096"]} == {
        "NVIDIA H100 80GB HBM3"
    }


def test_upstream_loads_a_trace_of_every_status():
    """Errors without a bound are Infinity, which JSON does not have."""
    written = Correctness(max_absolute_error=float("inf"), max_relative_error=float("nan")).model_dump_json()
    assert UpstreamCorrectness.model_validate_json(written).max_absolute_error == float("inf")


def test_upstream_builds_a_kernel_with_its_tuned_choices(tmp_path, monkeypatch):
    from flashinfer_bench.compile import BuilderRegistry

    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "fib-cache"))
    registry = make_tunable(tmp_path / "registry")
    row = "// {hidden, itemsize, multiprocessors, min_batch, few, many}\n{128, 2, 0, 0, 9, 0},\n"
    (folder_of(registry) / TABLE).write_text(row)
    pack_all(registry)
    loaded = TraceSet.from_path(str(registry.root))
    (solution,) = loaded.solutions["rmsnorm_d128"]
    run = BuilderRegistry.get_instance().build(loaded.definitions["rmsnorm_d128"], solution)
    with pytest.raises(ValueError, match="9 is too many"):
        run(torch.ones(1, 128, dtype=torch.float16), torch.ones(128, dtype=torch.float16), 1e-6)


@pytest.mark.process
@pytest.mark.parametrize("style", ["value-returning", "destination-passing"])
def test_upstream_applies_the_winner(registry, monkeypatch, tmp_path, style):
    """The C++ solution runs, and not the fallback, which would raise."""
    import flashinfer_bench
    from flashinfer_bench.apply import ApplyConfig

    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "fib-cache"))

    def fallback(*_):
        raise AssertionError("the fallback ran")

    x, weight = torch.randn(8, 4096, dtype=torch.float16) * 300, torch.randn(4096, dtype=torch.float16)
    out = torch.full_like(x, float("nan"))
    exact = RmsNorm().compute_exact({"x": x, "weight": weight, "eps": 1e-6}, {"out": torch.float16})
    config = ApplyConfig(max_rtol=1.0, max_atol=1.0)
    with flashinfer_bench.enable_apply(str(registry.root), config):
        if style == "value-returning":
            out = flashinfer_bench.apply("rmsnorm_d4096", args=(x, weight, 1e-6), fallback=fallback)
        else:
            flashinfer_bench.apply("rmsnorm_d4096", args=(x, weight, 1e-6, out), fallback=fallback)
        with pytest.raises(AssertionError, match="the fallback ran"):
            other = torch.randn(3, 4096, dtype=torch.float16)  # a batch without a trace
            flashinfer_bench.apply("rmsnorm_d4096", args=(other, weight, 1e-6), fallback=fallback)
    torch.testing.assert_close(out, exact["out"].values, rtol=1e-3, atol=2.4e-7)
