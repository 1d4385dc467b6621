from __future__ import annotations

import json

import pytest

from support.full_registry import DEFINITION, PYTHON
from support.paths import PUBLISHED, REPOSITORY
from support.registries import RIGHT
from support.trace_json import lines, trace

EARLIER = REPOSITORY / "docs" / "data" / "h200-earlier.jsonl"


@pytest.fixture
def file(tmp_path):
    def run(name, *traces):
        path = tmp_path / name
        path.write_text(lines(*traces))
        return path

    return run


def test_a_slowdown_beyond_doubt_fails(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace(latency_ms=0.0022))
    outcome = fib("compare", old, new)
    assert outcome.code == 1
    row = outcome.row("fast_v1", "slower")
    assert "2.00 us" in row and "2.20 us" in row and "+10.0%" in row
    assert "1 compared: 1 slower." in outcome.lines
    assert "Regression: slower, or now failing: fast_v1@batch=8" in outcome.lines


def test_a_slowdown_within_the_limit_passes(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace(latency_ms=0.0022))
    outcome = fib("compare", old, new, "--max-slowdown", "0.15")
    assert outcome.code == 0 and "slower" in outcome.row("fast_v1", "slower")
    assert "No regression: nothing is slower by more than 15%, and nothing now fails." in outcome.lines


def test_a_limit_is_told_as_it_was_understood(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace(latency_ms=0.0022))
    assert "nothing is slower by more than 500%," in fib("compare", old, new, "--max-slowdown", "5").out
    failing = fib("compare", old, new, "--max-slowdown", "0.05").lines
    assert "Regression: slower by more than 5%, or now failing: fast_v1@batch=8" in failing
    assert "No regression" not in fib("compare", old, old).out


def test_equal_traces_are_no_different_and_the_resolution_is_told(fib):
    outcome = fib("compare", PUBLISHED, PUBLISHED)
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert "cannot be detected" in said and "intervals together have a confidence of 95%" in said
    assert "assumed, since there are no repeated runs" in said
    assert "faster" not in outcome.out and "slower" not in outcome.out
    assert "Two or more benches of each side detect smaller differences" in said
    said = " ".join(fib("compare", EARLIER, EARLIER).out.split())
    assert "OLD and NEW are not known to be of the same session" in said and "or use --measure" in said


def test_runs_of_one_session_compare_closer(fib, file):
    here, there = (trace(device_session=session) for session in ("here", "there"))
    found = fib("compare", file("a", here), file("b", here))
    assert "session" not in found.out and "Two or more benches of each side" in found.out
    assert "of different sessions" in " ".join(fib("compare", file("a", here), file("b", there)).out.split())
    near, far = (
        json.loads(fib("compare", file("a", here), file("b", other), "--json").out)["comparisons"][0]
        for other in (here, there)
    )
    assert near["is_of_one_session"] and not far["is_of_one_session"]
    assert near["resolution"] < 0.025 < far["resolution"]


def test_repeated_runs_make_it_finer(fib, file):
    old = [trace(timestamp=f"2026-01-0{day}") for day in (1, 2, 3)]
    single = json.loads(fib("compare", file("a", old[0]), file("b", old[1]), "--json").out)
    several = json.loads(fib("compare", file("a", *old), file("b", *old), "--json").out)
    assert several["comparisons"][0]["resolution"] < single["comparisons"][0]["resolution"]
    assert several["drift"]["repeats"] == 4 and single["comparisons"][0]["verdict"] == "no different"


def test_old_and_new_of_several_runs_agree_with_their_difference(fib, file):
    days = [f"2026-01-0{day}" for day in (1, 2)]
    old = [trace(latency_ms=each, timestamp=day) for each, day in zip((0.002, 0.008), days, strict=True)]
    new = [trace(latency_ms=0.004, timestamp=day) for day in days]
    row = fib("compare", file("a", *old), file("b", *new)).row("fast_v1", "different")
    assert row.count("4.00 us") == 2 and "+0.0%" in row


def test_without_a_gate_suspect_numbers_alone_are_no_comparison(fib, file):
    path = file("a", trace(suspect=["doubt"]))
    outcome = fib("compare", path, path)
    assert outcome.code == 2 and "every number is SUSPECT; to accept that, add --allow suspect" in outcome.err
    assert "1 compared: 1 suspect." in outcome.lines
    assert fib("compare", path, path, "--allow", "suspect").code == 0


def test_a_gate_does_not_take_a_suspect_number_for_a_pass(fib, file):
    """Nor does it fail by one: three times as slow, which a busy machine may make of any kernel."""
    doubtful = {"solution": "odd_v1", "suspect": ["the clock moved"]}
    old = file("old.jsonl", trace(), trace(**doubtful))
    new = file("new.jsonl", trace(), trace(**doubtful, latency_ms=0.006))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and outcome.err == (
        "fib-rmsnorm: the gate failed: 1 of 2 cannot be judged (odd_v1@batch=8: SUSPECT: the clock moved);"
        " to accept that, add --allow suspect\n"
    )
    assert "Among the other 1, no regression: nothing is slower by more than 5%, and nothing now fails." in outcome.out
    assert "Not judged: odd_v1@batch=8: SUSPECT: the clock moved" in outcome.lines
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "suspect").code == 0
    found = json.loads(fib("compare", old, new, "--max-slowdown", "0.05", "--json").out)
    assert found["unjudged"] == 1
    assert [each["unjudged"] for each in found["comparisons"]] == [None, "SUSPECT: the clock moved"]


@pytest.mark.parametrize("times", [10, 20])
@pytest.mark.parametrize("suspect_side", ["old", "new"])
def test_a_slowdown_far_beyond_any_noise_fails_even_if_suspect(fib, file, times, suspect_side):
    doubt = {"suspect": ["earlier and later trials 4% apart"]}
    old = file("old.jsonl", trace(**(doubt if suspect_side == "old" else {})))
    new = file("new.jsonl", trace(latency_ms=0.002 * times, **(doubt if suspect_side == "new" else {})))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "suspect")
    assert outcome.code == 1 and "slower" in outcome.row("fast_v1", "slower")
    assert "Regression: slower by more than 5%, or now failing: fast_v1@batch=8" in outcome.lines


def test_a_median_of_disturbed_calls_is_not_judged_however_slow(fib, file):
    """A tenth of the calls was as fast as before, so the kernel is."""
    old = file("old.jsonl", trace())
    new = file("new.jsonl", trace(latency_ms=0.04, latency_p5_ms=0.002, suspect=["other processes"]))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "1 of 1 cannot be judged" in outcome.err


def test_a_suspect_number_is_never_faster(fib, file):
    """What is too fast to be true is SUSPECT for that."""
    old = file("old.jsonl", trace())
    new = file("new.jsonl", trace(latency_ms=0.0001, suspect=["7% of a copy of the same bytes"]))
    assert fib("compare", old, new, "--max-slowdown", "0.05").code == 2


@pytest.mark.parametrize("low", [0.0, 0.0005])
def test_a_gate_does_not_pass_what_it_cannot_resolve(fib, file, low):
    vague = {"latency_low_ms": low, "latency_high_ms": 0.004}
    old, new = file("old.jsonl", trace(**vague)), file("new.jsonl", trace(**vague, latency_ms=0.0022))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "1 of 1 cannot be judged (fast_v1@batch=8: a slowdown below" in outcome.err
    assert outcome.err.endswith("cannot be detected); to accept that, add --allow unresolved\n")
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "unresolved").code == 0
    assert fib("compare", old, new, "--max-slowdown", "0").code == 0, "a limit of 0 asks for what is certainly slower"


def test_a_gate_tells_the_first_that_it_cannot_judge(fib, file):
    path = file("a", trace(), *(trace(f"odd_v{number}", suspect=["doubt"]) for number in range(5)))
    outcome = fib("compare", path, path, "--max-slowdown", "0.05")
    assert outcome.err.count("SUSPECT") == 3 and "; and 2 more)" in outcome.err
    assert all(f"odd_v{number}@batch=8: SUSPECT" in outcome.out for number in range(5))


def test_a_suspect_number_does_not_blur_the_others(fib, file):
    noise = trace(batch=32, latency_low_ms=0.001, latency_high_ms=0.003, suspect=["doubt"])
    path = file("a", trace(), noise)
    outcome = fib("compare", path, path)
    resolutions = {
        each["axes"]["batch"]: each["resolution"]
        for each in json.loads(fib("compare", path, path, "--json").out)["comparisons"]
    }
    assert (
        f"A difference below {resolutions[8]:.1%} cannot be detected" in outcome.out
        and resolutions[32] > resolutions[8]
    )


def test_a_gate_is_not_passed_by_what_is_missing(fib, file):
    """Without --max-slowdown it is a comparison of what there is."""
    slow = trace(solution="slow_v1", latency_ms=0.003)
    old, new = file("old.jsonl", trace(), slow), file("new.jsonl", trace())
    assert fib("compare", old, new).code == 0
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert (
        "NEW lacks 1 of OLD's results, or measured them differently; to accept that, add --allow missing" in outcome.err
    )
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "missing").code == 0
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--solutions", "fast_v1").code == 0
    assert fib("compare", new, old, "--max-slowdown", "0.05").code == 0


def test_a_gate_is_not_passed_by_what_was_measured_under_other_conditions(fib, file):
    moved = {"solution": "moved_v1"}
    old = file("old.jsonl", trace(), trace(**moved))
    for name, other in (("hot", {"cold_l2": False}), ("interpreted", {"interpreted": True})):
        new = file(f"{name}.jsonl", trace(), trace(**moved, **other))
        assert fib("compare", old, new).code == 0
        outcome = fib("compare", old, new, "--max-slowdown", "0.05")
        assert outcome.code == 2 and "NEW lacks 1 of OLD's results, or measured them differently" in outcome.err
        assert "1 not compared" in outcome.out
        assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "missing").code == 0
    failed = trace(**moved, latency_ms=None)
    old, new = file("old.jsonl", trace(), failed), file("new.jsonl", trace(), failed)
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert (
        outcome.code == 0
        and "1 not compared: no latency in either: the evaluations failed or were interpreted" in outcome.lines
    )


def test_a_gate_is_not_passed_by_a_kernel_that_now_writes_nothing(fib, file):
    """As bench writes it: what JSON has no number for is a string. The older PASSED Trace is there too."""
    failed = trace(latency_ms=None, status="INCORRECT_NUMERICAL", timestamp="2026-02-01", sha="cc")
    failed["evaluation"]["correctness"] = {"max_relative_error": "Infinity", "max_absolute_error": "NaN"}
    old = file("old.jsonl", trace())
    new = file("new.jsonl", trace(timestamp="2026-01-03"), failed)
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 1 and outcome.err == ""
    assert "now fails" in outcome.row("fast_v1", "fails")
    assert "No regression" not in outcome.out
    for command in ("report", "best", "analyze"):
        assert "INCORRECT_NUMERICAL" in fib(command, new).out
        assert fib(command, new).err == ""
    assert fib("compare", new, old).code == 2, "nothing to compare with: OLD failed"


def test_two_solutions_are_no_traces_and_what_compares_them_is_told(fib):
    outcome = fib("compare", "rmsnorm_cuda_vec16_v1", "rmsnorm_triton_row_v1", "--root", REPOSITORY)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "no such file or folder: rmsnorm_cuda_vec16_v1; to measure two Solutions now, add --measure" in outcome.err


def test_a_gate_is_not_passed_by_what_cannot_be_read(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace())
    new.write_text('{"definition": 1}\n' + new.read_text())
    assert fib("compare", old, new).code == 0
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "a file could not be read completely" in outcome.err


def test_another_device_is_refused_unless_allowed(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace(hardware="NVIDIA A100", timer="cuda_events"))
    outcome = fib("compare", old, new)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "they differ in device (OLD NVIDIA H200, NEW NVIDIA A100), timer" in outcome.err
    allowed = fib("compare", old, new, "--allow", "device,timer")
    assert allowed.code == 0
    assert "NVIDIA H200, cupti against NVIDIA A100, cuda_events" in allowed.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--allow", "weather"],
            "--allow: unknown weather; choose from device, timer, clock, cache, missing, suspect, unresolved",
        ),
        (["--batch-sizes", "3"], "no Trace has batch size 3 (available: 8)"),
        (["--measure", "--solutions", "x"], "--measure takes two Solutions as OLD and NEW"),
    ],
)
def test_bad_options_are_one_line(fib, file, arguments, said):
    outcome = fib("compare", file("a", trace()), file("b", trace()), *arguments)
    assert outcome.code == 2 and said in outcome.err and outcome.err.count("\n") == 1


def test_only_the_batches_asked_for_are_compared(fib, file):
    old = file("old.jsonl", trace(batch=8), trace(batch=512))
    new = file("new.jsonl", trace(batch=8), trace(batch=512, latency_ms=9.0))
    assert fib("compare", old, new).code == 1
    outcome = fib("compare", old, new, "--batch-sizes", "8")
    assert outcome.code == 0 and "batch=512" not in outcome.out


def test_measured_now_a_kernel_and_itself_are_no_different(fib, full_registry, tmp_path):
    """Through the evaluator: three rounds of two small races; on a busy machine the noise is told as it is."""
    outcome = fib(
        *("compare", "--measure", PYTHON, PYTHON, "--root", full_registry.root, "--device", "cpu"),
        *("--batch-sizes", "8", "--rounds", "2", "--allow", "clock,suspect", "--json", "--max-slowdown", "9"),
    )
    assert outcome.code == 0, outcome.err
    (found,) = json.loads(outcome.out)["comparisons"]
    assert found["definition"] == DEFINITION and len(found["old_ms"]) == len(found["new_ms"]) == 2
    assert found["solution"] == f"{PYTHON} -> {PYTHON}.new"
    assert found["is_of_one_session"]
    assert outcome.err.count("PASSED") == 4


def test_two_files_can_be_measured(fib, tmp_path):
    kernels = [tmp_path / "a.py", tmp_path / "b.py"]
    for kernel in kernels:
        kernel.write_text(RIGHT)
    outcome = fib(
        *("compare", "--measure", *kernels, "--root", REPOSITORY, "--device", "cpu", "--batch-sizes", "1"),
        *("--rounds", "1", "--allow", "clock,suspect", "--json", "--max-slowdown", "9"),
    )
    assert outcome.code == 0, outcome.err
    (found,) = json.loads(outcome.out)["comparisons"]
    assert (found["definition"], found["solution"]) == ("rmsnorm_d4096", "a.py -> b.py")


def test_measured_now_unknown_names_are_told(fib, full_registry):
    outcome = fib("compare", "--measure", "zz", PYTHON, "--root", full_registry.root, "--device", "cpu")
    assert outcome.code == 2 and "'zz' is neither a Solution of" in outcome.err and "nor a file" in outcome.err


def test_measured_now_a_batch_too_large_for_the_device_is_refused(fib, full_registry):
    options = ("--root", full_registry.root, "--device", "cpu", "--batch-sizes", "2147483647")
    outcome = fib("compare", "--measure", PYTHON, PYTHON, *options)
    assert outcome.code == 2
    assert outcome.err.startswith("fib-rmsnorm: --batch-sizes 2147483647: needs about")
