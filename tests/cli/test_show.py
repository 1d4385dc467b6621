"""`show`: every kind of record, by its name, and what it tells a sceptic of a latency and of distances in ULP."""

import json
import math

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import REFERENCE, Chain, Definition, Performance, Solution, Trace
from support.full_registry import CUDA, DEFINITION, HARDWARE, PYTHON, change_sources, make_trace
from support.trace_json import trace as gpu_trace


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
    shown = fib("show", f"{CUDA}@batch=1", "--json").json
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


@pytest.fixture
def show(fib, full_registry, workloads):
    """Show a Trace of an evaluation with what is given changed in its Performance."""

    def run(extra=None, **changes):
        measured = gpu_trace()["evaluation"]["performance"] | changes
        measured["clocks"] |= {"throttle_reasons": ["sw_power_cap"], "max_temperature_c": 41}
        told = make_trace(full_registry.packed_solutions()[CUDA], workloads[0], hardware="Other GPU")
        told.evaluation.performance = Performance.model_validate(measured)
        told.evaluation.correctness.extra |= extra or {}
        full_registry.append_trace(told, "ann", "norm")
        return fib("show", f"{CUDA}@batch=1")

    return run


def test_all_that_was_recorded_is_shown_by_its_name(show):
    chain = Chain(links=40, chained_latency_ms=0.0014, chained_low_ms=0.00139, chained_high_ms=0.00141)
    outcome = show(
        launches=[{"name": "scale\x1b[2J", "grid": [8, 1, 1]}],
        chain=chain,
        reference_low_ms=0.05,
        reference_high_ms=0.1,
        a_a_difference=0.004,
        build_s=1.5,
        peak_memory_bytes=512,
    )
    found = {name: value.strip() for name, colon, value in (line.partition(": ") for line in outcome.lines) if colon}
    assert {
        "latency_ms": "0.002",
        "latency_low_ms": "0.00199",
        "samples": "200",
        "build_s": "1.5",
        "cold_l2": "true",
        "chain.chained_latency_ms": "0.0014",
        "ceiling.copy_method": "cuda 64x1",
        "clocks.during_mhz": "1980.0",
        "clocks.throttle_reasons": '["sw_power_cap"]',
    }.items() <= found.items()
    assert found["launches"] == '[{"name": "scale\\u001b[2J", "grid": [8, 1, 1]}]'
    assert found["speedup"].startswith("30.0x (")
    assert not {"disturbed_calls", "clocks.other_share"} & found.keys(), "what is unknown is left out"


def test_every_mark_is_shown_first_and_in_yellow(show, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    outcome = show(noisy=["it is faster than an empty kernel", "the clock moved\x1b]0;by 3%"])
    assert outcome.lines[0].endswith("\x1b[1;33m  noisy\x1b[0m")
    assert "\x1b[1;33mnoisy\x1b[0m\x1b[33m: it is faster than an empty kernel\x1b[0m\n" in outcome.out
    assert "\x1b]" not in outcome.out
    assert outcome.out.index("the clock moved") < outcome.out.index("latency_ms:")


def ulp(*counts: int) -> dict[str, object]:
    buckets = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
    reached = max(index for index, number in enumerate(counts) if number)
    mean = sum(index * number for index, number in enumerate(counts)) / sum(counts)
    histogram = dict(zip(buckets, (*counts, *[0] * (len(buckets) - len(counts))), strict=True))
    return {"maximum": reached, "mean": mean, "histogram": histogram}


def test_distances_in_ulp_beside_those_of_the_reference(show):
    case = {"max_absolute_error": 0.5, "mismatched": 1}
    cases = [
        {"case": "workload", **case, "ulp": {"out": ulp(90, 10)}, "reference_ulp": {"out": ulp(80, 15, 5)}},
        {"case": "hard rows", **case, "ulp": {"out": ulp(100)}},
        {"case": "hard rows", **case, "max_absolute_error": 2.0, "ulp": {"out": ulp(270, 30)}},
    ]
    lines = [line.split() for line in show({"cases": cases}).lines]
    # Cases of one name are one row: the largest error, all wrong elements, all elements' distances.
    assert ["workload", "1", "0.5", "1"] in lines
    assert ["hard", "rows", "2", "2", "2"] in lines
    start = lines.index(["ULP", "of", "out", "maximum", "mean", "0", "ULP", "1", "ULP", "2", "ULP"])
    assert lines[start + 1 : start + 4] == [
        ["workload", "1", "0.1", "90", "10", "0"],
        ["workload,", "by", "the", "reference", "2", "0.25", "80", "15", "5"],
        ["hard", "rows", "1", "0.075", "370", "30", "0"],
    ]


def test_an_output_without_floats_has_no_ulp(show):
    cases = [{"case": "workload", "max_absolute_error": 0.0, "mismatched": 0, "ulp": {"indices": None, "out": ulp(8)}}]
    outcome = show({"cases": cases})
    assert "ULP of out" in outcome.out
    assert "ULP of indices" not in outcome.out
