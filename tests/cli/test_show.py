"""`show`: every kind of record, by its name."""

import json
import math

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import REFERENCE, Definition, Solution, Trace
from support.full_registry import CUDA, DEFINITION, HARDWARE, PYTHON, change_sources, make_trace


@pytest.fixture
def workloads(full_registry):
    return full_registry.workloads(DEFINITION)


def test_a_definition(fib, full_registry):
    outcome = fib("show", DEFINITION)
    assert outcome.code == 0
    assert outcome.lines[:4] == [
        f"Definition: {DEFINITION}",
        "  Axes: batch (var), hidden (const: 128)",
        "  Inputs: x [batch, 128] fp16, weight [128] fp16, eps scalar",
        "  Outputs: out [batch, 128] fp16",
    ]
    assert "Constraints:      hidden % 128 == 0" in outcome.lines
    assert "In this registry: 2 Solutions, 2 Workloads, 4 Traces" in outcome.lines
    assert "Judged by:        the operator rmsnorm, whose own reference it has" in outcome.lines
    assert full_registry.definition(DEFINITION).reference in outcome.out


def test_a_solution_with_all_its_sources(fib, full_registry):
    outcome = fib("show", CUDA)
    assert outcome.lines[0] == f"Solution: {CUDA}"
    assert "A plain one." in outcome.lines
    assert "Entry point:     kernel.cu::run" in outcome.lines
    assert "Called:          with its outputs (destination passing)" in outcome.lines
    assert "Traces:          2" in outcome.lines
    assert "1 PASSED, 1 INCORRECT_NUMERICAL" in outcome.row("Test", "GPU")
    assert outcome.out.index("kernel.cu\n\n// run\n") < outcome.out.index("rows/rows.cuh\n\n#define ROWS 4\n")


def test_a_solution_tells_traces_of_earlier_contents_apart(fib, full_registry, workloads):
    changed = change_sources(full_registry)
    assert "Traces:          0 (and 2 of earlier contents)" in fib("show", PYTHON).lines
    assert f"Solution:           {PYTHON} (changed since)" in fib("show", f"{PYTHON}@batch=1").lines
    for workload in workloads:
        wrong = make_trace(changed, workload, status="INCORRECT_NUMERICAL")
        full_registry.append_trace(wrong, "baseline", "norm")
    outcome = fib("show", PYTHON)
    assert "Traces:          2 (and 2 of earlier contents)" in outcome.lines
    assert outcome.row(*HARDWARE.split()).endswith("  2 INCORRECT_NUMERICAL (and 2 of earlier contents)")
    assert "earlier" not in fib("show", CUDA).out


def test_traces_on_workloads_with_the_same_axes(fib, full_registry):
    """Those that `show` offers and those that its errors name are found."""
    solution = full_registry.packed_solutions()[PYTHON]
    (other,) = generate_workloads(full_registry.definition(DEFINITION), [8], scalars={"eps": 0.01})
    trace = make_trace(solution, other)
    full_registry.append_trace(trace, "baseline", "norm")
    assert f"One of them: fib-rmsnorm show {PYTHON}@batch=8,eps=0.01" in fib("show", PYTHON).lines
    assert fib("show", f"{PYTHON}@batch=8,eps=0.01").lines[0] == f"Trace: {PYTHON} at batch=8  PASSED"
    assert (
        f"is ambiguous: {PYTHON}@batch=8,eps=1e-06, {PYTHON}@batch=8,eps=0.01" in fib("show", f"{PYTHON}@batch=8").err
    )


def test_a_trace_with_everything_in_its_record(fib, full_registry, workloads):
    trace = next(t for t in full_registry.traces() if t.solution == PYTHON and t.workload.axes == {"batch": 1})
    outcome = fib("show", f"{PYTHON}@batch=1")
    assert outcome.lines[0] == f"Trace: {PYTHON} at batch=1  PASSED"
    for line in (
        f"Workload:           batch=1, x random, weight random, eps=1e-06 ({workloads[0].uuid})",
        f"Hardware:           {HARDWARE}",
        "Evaluated:          2026-01-02T03:04:05.678+00:00",
        "Libraries:          torch 2.99",
        "Settings:           rtol=0.5, warmup_runs=10, iterations=50, num_trials=4, l2=cold, context=isolated",
        f"Solution SHA-256:   {trace.evaluation.solution_sha256}",
        f"Definition SHA-256: {trace.evaluation.definition_sha256}",
    ):
        assert line in outcome.lines
    assert outcome.row("max_absolute_error:", "0.002") and outcome.row("tolerance.out.rtol:", "0.001")
    assert outcome.row("latency_ms:", "0.0125") and outcome.row("timer:").endswith(" cpu_clock")
    assert outcome.row("hard", "rows,", "eps=1e-06").split()[-3:] == ["1", "0.125", "17"]


def test_a_failed_trace_shows_its_log(fib, full_registry, workloads):
    log = "building: kernel.cu(3): error\n\x1b[31m  red \x1b[0m\x1b]0;title\x07\n"
    trace = make_trace(full_registry.packed_solutions()[CUDA], workloads[0], status="COMPILE_ERROR", log=log)
    full_registry.append_trace(trace, "ann", "norm")
    outcome = fib("show", f"{CUDA}@batch=1")
    assert outcome.lines[0].endswith("  COMPILE_ERROR")
    assert "\nLog\n\n| building: kernel.cu(3): error\n|   red " in outcome.out
    assert "\x1b" not in outcome.out and "\x07" not in outcome.out  # a log commands no terminal
    assert "Performance" not in outcome.out and "Correctness" not in outcome.out


def test_a_trace_that_others_wrote(fib, full_registry, workloads):
    trace = make_trace(full_registry.packed_solutions()[PYTHON], workloads[0], hardware="Other")
    record = json.loads(trace.model_dump_json())
    for name in ("settings", "solution_sha256", "definition_sha256"):
        del record["evaluation"][name]
    record["evaluation"]["correctness"]["extra"] = {"cases": 3, "tolerance": "loose"}
    record["evaluation"]["performance"] = {"latency_ms": 1, "reference_latency_ms": 2, "speedup_factor": 2}
    with full_registry.layout.trace_file("baseline", "norm", DEFINITION).open("a") as file:
        file.write(json.dumps(record) + "\n")
    outcome = fib("show", f"{PYTHON}@batch=1")
    assert outcome.code == 0
    assert outcome.row("tolerance:", "loose")
    shown = outcome.out.partition("Performance\n")[2].partition("\nCorrectness")[0]
    assert [line.split(":")[0] for line in shown.strip().split("\n")] == [
        "latency_ms",
        "reference_latency_ms",
        "speedup",
    ]


def test_json_is_the_record(fib, full_registry):
    assert Definition.model_validate_json(fib("show", DEFINITION, "--json").out) == full_registry.definition(DEFINITION)
    solution = full_registry.packed_solutions()[CUDA]
    assert Solution.model_validate_json(fib("show", CUDA, "--json").out).model_dump() == solution.model_dump()
    trace = Trace.model_validate_json(fib("show", f"{PYTHON}@batch=8", "--json").out)
    assert trace in full_registry.traces()
    wrong = make_trace(solution, full_registry.workloads(DEFINITION)[0], timestamp="2027-01-01T00:00:00+00:00")
    wrong.evaluation.correctness.max_relative_error = math.inf
    full_registry.append_trace(wrong, "ann", "norm")
    shown = json.loads(fib("show", f"{CUDA}@batch=1", "--json").out)
    assert shown["evaluation"]["correctness"]["max_relative_error"] == "Infinity", "as in its file"


def test_a_definition_that_is_not_ours(fib, full_registry):
    definition = RmsNorm().define(256)
    bare = {"tags": [], "constraints": [], "description": None, "reference": definition.reference + "\nEPS = 1e-6\n"}
    full_registry.write_definition(definition.model_copy(update=bare))
    outcome = fib("show", definition.name)
    assert outcome.code == 0
    assert "Constraints" not in outcome.out
    assert "In this registry: 0 Solutions, 0 Workloads, 0 Traces" in outcome.lines
    (judged,) = (line for line in outcome.lines if line.startswith("Judged by: "))
    assert " or rmsnorm or rmsnorm_llama or rmsnorm_gemma" in judged
    assert judged.endswith(", if the reference's outputs are: an evaluation probes it")


@pytest.mark.parametrize(
    ("judged_by", "said"),
    [("rmsnorm", "the operator rmsnorm, on hard inputs too"), (REFERENCE, "the Definition's reference alone, on the")],
)
def test_the_newest_trace_of_several_says_who_judged(fib, full_registry, workloads, judged_by, said):
    solution = full_registry.packed_solutions()[PYTHON]
    old = make_trace(solution, workloads[0], timestamp="2025-01-01T00:00:00+00:00")
    new = make_trace(solution, workloads[0], timestamp="2027-01-01T00:00:00+00:00")
    new.evaluation.judged_by, old.evaluation.judged_by = judged_by, "layernorm"
    for trace in (new, old):
        full_registry.append_trace(trace, "baseline", "norm")
    assert f"Judged by:          {said}" in fib("show", f"{PYTHON}@batch=1").out
