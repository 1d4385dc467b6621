"""`compare`: what it tells of two files and of two kernels, and what its gate passes, fails, and cannot judge."""

import pytest

from fib_rmsnorm.operators import find_operator
from support.full_registry import DEFINITION, PYTHON
from support.paths import PUBLISHED, REPOSITORY, write
from support.registries import WRONG
from support.trace_json import trace

EARLIER = REPOSITORY / "docs" / "data" / "h200-earlier.jsonl"
GATE = ("--max-slowdown", "0.05")


def test_the_interval_decides_whatever_mark_a_number_has_and_a_limit_is_shown_as_it_was_understood(fib, file):
    busy = {"noisy": ["the clock moved"]}
    old, new = file(trace(**busy)), file(trace(latency_ms=0.0022, **busy))
    outcome = fib("compare", old, new)
    row = outcome.row("fast_v1", "slower")
    assert outcome.code == 1 and "2.00 us" in row and "2.20 us" in row and "+10.0%" in row
    told = {"1 compared: 1 slower.", "Regression: slower: fast_v1@batch=8", "Noisy: fast_v1@batch=8: the clock moved"}
    assert told <= {*outcome.lines}
    for limit, percent in (("0.15", "15%"), ("5", "500%")):
        outcome = fib("compare", old, new, "--max-slowdown", limit)
        assert outcome.code == 0 and "slower" in outcome.row("fast_v1", "slower")
        assert f"No regression: nothing is slower by more than {percent}, and nothing now fails." in outcome.lines
    failing = fib("compare", old, new, *GATE)
    assert failing.code == 1 and "Regression: slower by more than 5%: fast_v1@batch=8" in failing.lines
    found = fib("compare", old, new, *GATE, "--json").json
    assert (found["regressions"], found["unjudged"]) == (1, 0)
    assert "No regression" not in fib("compare", old, old).out
    assert fib("compare", new, old, *GATE).code == 0


def test_workloads_with_the_same_axes_are_told_apart_by_their_scalars(fib, file):
    other = trace(noisy=["busy"])
    other["workload"]["uuid"], other["workload"]["inputs"]["eps"]["value"] = "other", 0.1
    path = file(trace(), other, trace(batch=32))
    outcome = fib("compare", path, path)
    told = [line.split("  ")[1].strip() for line in outcome.lines if line.startswith("fast_v1")]
    assert told == ["batch=8, eps=1e-06", "batch=8, eps=0.1", "batch=32, eps=1e-06"]
    assert "Noisy: fast_v1@batch=8,eps=0.1: busy" in outcome.lines
    found = fib("compare", path, path, "--json").json["comparisons"]
    assert [each["scalars"]["eps"] for each in found] == [1e-6, 0.1, 1e-6]


def runs(latencies_ms):
    """A run each minute."""
    return [
        trace(latency_ms=each, timestamp=f"2026-01-01T00:{number:02}") for number, each in enumerate(latencies_ms, 1)
    ]


def test_every_run_counts(fib, file):
    """A round that other processes slowed is no reason to keep the steady ones alone: those may be the slow ones."""
    old, new = file(*runs((0.002, 0.002, 0.002))), file(*runs((0.0022, 0.009, 0.0022)))
    outcome = fib("compare", old, new)
    assert outcome.code == 0 and outcome.row("fast_v1", "tie")
    found = fib("compare", old, new, "--json").json
    assert found["comparisons"][0]["new_ms"] == [0.0022, 0.009, 0.0022] and found["drift"]["repeats"] == 4
    failing = file(*runs((0.002, 0.002)), trace(status="INCORRECT_NUMERICAL", timestamp="2026-01-02"))
    assert fib("compare", old, failing).code == 1


def test_equal_traces_are_no_different_and_the_resolution_is_reported(fib):
    outcome = fib("compare", PUBLISHED, PUBLISHED)
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert "cannot be detected" in said and "intervals together have a confidence of 95%" in said
    assert "(assumed)" in said
    assert "faster" not in outcome.out and "slower" not in outcome.out
    assert "Two or more benches of each side detect smaller differences" in said
    said = " ".join(fib("compare", EARLIER, EARLIER).out.split())
    assert "OLD and NEW share no recorded session" in said and "or use --measure" in said


def test_old_and_new_of_several_runs_agree_with_their_difference(fib, file):
    days = [f"2026-01-0{day}" for day in (1, 2)]
    old = [trace(latency_ms=each, timestamp=day) for each, day in zip((0.002, 0.008), days, strict=True)]
    new = [trace(latency_ms=0.004, timestamp=day) for day in days]
    row = fib("compare", file(*old), file(*new)).row("fast_v1", "tie")
    assert row.count("4.00 us") == 2 and "+0.0%" in row


def test_a_wide_interval_does_not_blur_the_others(fib, file):
    noise = trace(batch=32, latency_low_ms=0.001, latency_high_ms=0.003)
    path = file(trace(), noise)
    outcome = fib("compare", path, path)
    resolutions = {
        each["axes"]["batch"]: each["resolution"] for each in fib("compare", path, path, "--json").json["comparisons"]
    }
    assert f"A difference below {resolutions[8]:.1%} to " in outcome.out and resolutions[32] > resolutions[8]


def test_another_device_is_refused_unless_allowed(fib, file):
    old, new = file(trace()), file(trace(hardware="NVIDIA A100", timer="cuda_events"))
    assert "they differ in device (OLD NVIDIA H200, NEW NVIDIA A100), timer" in fib("compare", old, new).refusal
    allowed = fib("compare", old, new, "--allow", "device,timer")
    assert allowed.code == 0
    assert "NVIDIA H200, cupti against NVIDIA A100, cuda_events" in allowed.out


def test_what_is_not_judged_is_counted_and_named_beside_what_is(fib, file):
    vague = {"solution": "odd_v1", "latency_low_ms": 0.001, "latency_high_ms": 0.004}
    path = file(trace(), trace(**vague))
    outcome = fib("compare", path, path, *GATE)
    assert outcome.code == 0 and outcome.err == ""
    assert "No regression in 1 of 2: nothing is slower by more than 5%, and nothing now fails." in outcome.out
    assert "1 of 2 not judged: ties that may hide a slowdown by more than 5%." in outcome.lines
    assert any(line.startswith("Not judged: odd_v1@batch=8 could still be up to") for line in outcome.lines)


def test_a_single_call_has_no_interval_and_ties_with_anything(fib, file):
    single = {"latency_low_ms": 0.0, "latency_high_ms": None}
    old, new = file(trace(**single)), file(trace(latency_ms=0.2, **single))
    outcome = fib("compare", old, new)
    assert outcome.code == 0 and outcome.row("fast_v1", "factor").endswith("any factor  any factor  tie")
    (found,) = fib("compare", old, new, "--json").json["comparisons"]
    assert found["ratio"]["high"] is None


@pytest.mark.parametrize("low", [0.0, 0.0005])
def test_a_gate_does_not_pass_what_it_cannot_resolve(fib, file, low):
    vague = {"latency_low_ms": low, "latency_high_ms": 0.004}
    old, new = file(trace(**vague)), file(trace(**vague, latency_ms=0.0022))
    outcome = fib("compare", old, new, *GATE)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "the gate judged nothing: every interval is wider than the limit" in outcome.err
    assert outcome.row("fast_v1", "tie") and "o regression" not in outcome.out
    much = "up to " if low else "any factor apart"
    assert any(line.startswith(f"Not judged: fast_v1@batch=8 could still be {much}") for line in outcome.lines)
    assert ("No difference can be detected." in outcome.out) == (not low)
    found = fib("compare", old, new, *GATE, "--json").json
    assert (found["regressions"], found["unjudged"]) == (0, 1)
    assert [each["is_judged"] for each in found["comparisons"]] == [False]
    assert fib("compare", old, new, "--max-slowdown", "0").code == 0, "a limit of 0 asks for what is certainly slower"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (None, "not in NEW"),
        ({"cold_l2": False}, "they differ in cache (OLD cold L2, NEW warm L2)"),
        ({"interpreted": True}, "no latency in NEW: the evaluations failed, or an interpreter ran them"),
        (
            {"definition_sha": "dd2"},
            "they differ in definition (OLD version cc1, NEW version dd2); to compare anyway: --allow definition",
        ),
    ],
)
def test_a_gate_is_not_passed_by_what_is_missing_or_was_measured_under_other_conditions(fib, file, changed, why):
    """Without --max-slowdown it is a comparison of what there is."""
    moved = {"solution": "moved_v1", "latency_ms": 0.04, "definition_sha": "cc1"}
    old = file(trace(), trace(**moved))
    new = file(trace(), *([trace(**{**moved, **changed})] if changed else []))
    assert fib("compare", old, new).code == 0
    outcome = fib("compare", old, new, *GATE)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    accept = "or measured them differently; to accept that, add --allow missing"
    assert f"NEW lacks 1 of OLD's results, {accept}" in outcome.err
    assert f"1 not compared: {why}" in " ".join(outcome.out.split())
    assert fib("compare", old, new, *GATE, "--allow", "missing").code == 0
    assert fib("compare", old, new, *GATE, "--solutions", "fast_v1").code == 0


def test_a_gate_is_passed_by_what_only_new_has_and_by_what_failed_in_both(fib, file):
    alone, both = file(trace()), file(trace(), trace("slow_v1", latency_ms=0.003))
    assert fib("compare", alone, both, *GATE).code == 0
    failed = trace("moved_v1", latency_ms=None)
    outcome = fib("compare", file(trace(), failed), file(trace(), failed), *GATE)
    why = "no latency in either: the evaluations failed, or an interpreter ran them"
    assert outcome.code == 0 and f"1 not compared: {why}" in outcome.lines


def test_a_gate_is_not_passed_by_a_kernel_that_now_writes_nothing(fib, file):
    """As bench writes it: what JSON has no number for is a string. The older PASSED Trace is there too."""
    failed = trace(latency_ms=None, status="INCORRECT_NUMERICAL", timestamp="2026-02-01", sha="cc")
    failed["evaluation"]["correctness"] = {"max_relative_error": "Infinity", "max_absolute_error": "NaN"}
    old = file(trace())
    new = file(trace(timestamp="2026-01-03"), failed)
    outcome = fib("compare", old, new, *GATE)
    assert outcome.code == 1 and outcome.err == ""
    assert "now fails" in outcome.row("fast_v1", "fails")
    assert "No regression" not in outcome.out
    for command in ("report", "best", "analyze"):
        assert "INCORRECT_NUMERICAL" in fib(command, new).out
        assert fib(command, new).err == ""
    assert fib("compare", new, old).code == 2, "nothing to compare with: OLD failed"


def test_a_gate_is_not_passed_by_what_cannot_be_read(fib, file):
    old, new = file(trace()), file(trace())
    new.write_text('{"definition": 1}\n' + new.read_text())
    assert fib("compare", old, new).code == 0
    outcome = fib("compare", old, new, *GATE)
    assert outcome.code == 2 and "a file could not be read completely" in outcome.err


@pytest.mark.process
def test_measured_now_a_kernel_and_itself_are_no_different(fib, full_registry, tmp_path):
    """Through the evaluator: three rounds of two small races; on a busy machine the noise is told as it is."""
    outcome = fib(
        *("compare", "--measure", PYTHON, PYTHON, "--root", full_registry.root, "--device", "cpu"),
        *("--batch-sizes", "8", "--rounds", "2", "--allow", "clock", "--json", "--max-slowdown", "9"),
    )
    told = outcome.json
    (found,) = told["comparisons"]
    # On a busy machine, only an upper bound of the times may be known, and then nothing is judged.
    assert outcome.code == (2 if told["unjudged"] else 0), outcome.err
    assert found["definition"] == DEFINITION
    assert len(found["old_ms"]) == len(found["new_ms"]) == 2
    assert found["solution"] == f"{PYTHON} -> {PYTHON}.new"
    assert found["is_of_one_session"]
    assert outcome.err.count("PASSED") == 4


@pytest.mark.process
def test_a_wrong_kernel_is_measured_once(fib, full_registry, tmp_path):
    """Three rounds would judge it three times, and say the same."""
    wrong = write(tmp_path / "wrong.py", WRONG)
    options = ("--root", full_registry.root, "--device", "cpu", "--batch-sizes", "8", "--rounds", "3")
    outcome = fib("compare", "--measure", PYTHON, wrong, *options)
    assert outcome.code == 1 and outcome.err.count("INCORRECT_NUMERICAL") == 1 and outcome.err.count("PASSED") == 1
    assert f"Regression: now failing: {PYTHON} -> wrong.py@batch=8 (INCORRECT_NUMERICAL)" in outcome.lines


@pytest.mark.process
def test_solutions_of_two_definitions_are_measured_at_sizes_that_both_have(fib, full_registry):
    """RMSNorm beside LayerNorm: each is judged by its own Definition."""
    full_registry.write_definition(find_operator("layernorm").define(hidden=128, dtype="float16"))
    layer = write("layer.py", f"# definition: layernorm_d128\n{find_operator('layernorm').reference}")
    command = ("compare", "--measure", PYTHON, layer, "--root", full_registry.root, "--device", "cpu", "--rounds", "1")
    outcome = fib(*command, "--batch-sizes", "1,8", "--json")
    assert outcome.code in (0, 1), outcome.err  # by which one is faster
    assert outcome.err.count("PASSED") == 4
    told = outcome.json
    first, *formulas = told["notes"]
    assert first == f"{DEFINITION} -> layernorm_d128: two Definitions, by each of which its Solution was judged"
    for name, formula in zip((DEFINITION, "layernorm_d128"), formulas, strict=True):
        assert formula.startswith(f"{name}: ") and "out = " in formula
    found = [(each["definition"], each["solution"], each["axes"]) for each in told["comparisons"]]
    both = (f"{DEFINITION} -> layernorm_d128", f"{PYTHON} -> layer.py")
    assert found == [(*both, {"batch": size}) for size in (1, 8)]


def test_two_files_serve_the_definition_that_they_name(fib, tmp_path):
    source = "# definition: layernorm_bias_d4096\ndef run(x, weight, bias, eps):\n    return missing\n"
    layer = write(tmp_path / "layernorm_bias_a.py", source)
    options = ("--root", REPOSITORY, "--device", "cpu", "--batch-sizes", "1")
    outcome = fib("compare", "--measure", layer, layer, *options, "--definition", "rmsnorm_d4096")
    assert outcome.code == 1 and "does not fit rmsnorm_d4096" in outcome.err
    assert "\n--definition layernorm_bias_d4096\n" in outcome.err
    assert "for --measure" in fib("compare", layer, layer, "--definition", "rmsnorm_d4096").refusal
