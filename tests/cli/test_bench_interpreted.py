"""What an interpreter runs is judged on every kind of case, on few rows, and never timed."""

import pytest

from fib_rmsnorm.evaluation.tensors.case_numbers import FEW_ROWS
from fib_rmsnorm.machine.devices import cpu_device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import list_cases
from support.command_line import QUICK_OPTIONS, run_here
from support.kernels import read_kernels
from support.registries import add_kernel, add_sources, make_registry, python_manifest, read_output

KERNEL = make_starting_kernel(RmsNorm().define(), "triton").text
LIBDEVICE = KERNEL.replace("1.0 / tl.sqrt(", "tl.extra.cuda.libdevice.rsqrt(")
KEEPS = read_kernels("wrong")["triton_caches_by_pointer"].text
BATCH = FEW_ROWS + 3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    registry = make_registry(tmp_path_factory.mktemp("interpreted") / "registry", batch_sizes=(BATCH,))
    for name, source in (("triton_v1", KERNEL), ("keeps_v1", KEEPS), ("libdevice_v1", LIBDEVICE)):
        manifest = python_manifest(name).replace('"python"', '"triton"').replace("= false", "= true")
        add_sources(registry, name, {"kernel.py": source}, manifest)
    add_kernel(registry, "right_v1")
    return registry.root


@pytest.fixture(scope="module")
def outcome(root, lent):
    return run_here("bench", "--root", root, *QUICK_OPTIONS, "--output", root / "traces.json")


def find_trace(root, name):
    return next(trace for trace in read_output(root / "traces.json") if trace.solution == name)


def test_its_trace_says_correct_and_no_time_or_wrong_if_it_keeps_something_of_an_earlier_call(outcome, root):
    assert "2 passed, 1 failed" in outcome.err
    assert "Skipped libdevice_v1 at " in outcome.err
    evaluation = find_trace(root, "triton_v1").evaluation
    assert evaluation.environment.hardware == f"{cpu_device().hardware} (interpreter)"
    assert evaluation.performance.model_dump(exclude_defaults=True) == {"interpreted": True, "library_calls": []}
    assert {case.kind for case in list_cases(evaluation.correctness)} == {"workload", "hard", "awkward"}
    (awkward,) = (case.case for case in list_cases(evaluation.correctness) if case.kind == "awkward")
    assert int(awkward.partition("=")[2]) <= FEW_ROWS < BATCH, "few rows, but for the Workload's own"
    assert find_trace(root, "keeps_v1").evaluation.status.value == "INCORRECT_NUMERICAL"


def test_upstream_reads_it(outcome, root):
    from flashinfer_bench.data import TraceSet

    found = TraceSet.from_path(str(root)).traces["rmsnorm_d128"]
    (performance,) = (trace.evaluation.performance for trace in found if trace.solution == "triton_v1")
    assert (performance.latency_ms, performance.reference_latency_ms, performance.speedup_factor) == (0, 0, 0)


def test_who_reads_it_shows_no_time(fib, outcome, root):
    assert fib("report", root / "traces.json", "--root", root).row("triton_v1", "Triton").endswith("  correct")
    assert fib("history", "triton_v1", "--root", root).code == 0
    shown = fib("show", f"triton_v1@batch={BATCH}", "--root", root)
    assert "Correct, and not timed: Triton's interpreter ran the kernel." in shown.lines


def test_resume_does_not_judge_it_again(fib, outcome, root):
    again = fib("bench", "--root", root, *QUICK_OPTIONS, "--resume")
    assert "2 passed, 1 failed (2 resumed from earlier runs)" in again.err
    assert len(Registry(root).traces()) == 4, "what failed, once more"
