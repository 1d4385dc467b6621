"""What `compare --max-slowdown` passes, fails, and cannot judge."""

from __future__ import annotations

import json

import pytest

from support.trace_json import lines, trace


@pytest.fixture
def file(tmp_path):
    def run(name, *traces):
        path = tmp_path / name
        path.write_text(lines(*traces))
        return path

    return run


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
        "fib-rmsnorm: the gate failed: 1 of 2 cannot be judged; to accept that, add --allow suspect\n"
    )
    assert "Among the other 1, no regression: nothing is slower by more than 5%, and nothing now fails." in outcome.out
    assert "Not judged: odd_v1@batch=8: SUSPECT: OLD: the clock moved; NEW: the clock moved" in outcome.lines
    accepted = fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "suspect")
    assert accepted.code == 0
    assert "Among the other 1, no regression: nothing is slower by more than 5%, and nothing now fails." in accepted.out
    assert "Accepted by --allow: 1 of 2 that cannot be judged; they do not fail." in accepted.lines
    found = json.loads(fib("compare", old, new, "--max-slowdown", "0.05", "--json").out)
    assert found["unjudged"] == 1
    assert [each["unjudged"] for each in found["comparisons"]] == [
        None,
        "SUSPECT: OLD: the clock moved; NEW: the clock moved",
    ]


@pytest.mark.parametrize("times", [10, 20])
@pytest.mark.parametrize("suspect_side", ["old", "new"])
def test_a_slowdown_far_beyond_any_noise_fails_even_if_suspect(fib, file, times, suspect_side):
    doubt = {"suspect": ["earlier and later trials 4% apart"]}
    old = file("old.jsonl", trace(**(doubt if suspect_side == "old" else {})))
    new = file("new.jsonl", trace(latency_ms=0.002 * times, **(doubt if suspect_side == "new" else {})))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "suspect")
    assert outcome.code == 1 and f" {times}.0x " in outcome.row("fast_v1", "slower") and "+" not in outcome.out
    assert "Regression: slower by more than 5%: fast_v1@batch=8" in outcome.lines


def test_a_median_of_disturbed_calls_is_not_judged_however_slow(fib, file):
    """A tenth of the calls was as fast as before, so the kernel is."""
    old = file("old.jsonl", trace())
    new = file("new.jsonl", trace(latency_ms=0.04, latency_p5_ms=0.002, suspect=["other processes"]))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "1 of 1 cannot be judged" in outcome.err


def test_a_speedup_far_beyond_any_noise_is_judged_even_if_suspect(fib, file):
    old = file("old.jsonl", trace(latency_ms=0.05, suspect=["busy"]))
    outcome = fib("compare", old, file("new.jsonl", trace(suspect=["busy"])), "--max-slowdown", "0.05")
    assert outcome.code == 0, outcome.err
    assert outcome.row("fast_v1", "faster") and "SUSPECT" not in outcome.out
    twice = fib("compare", file("old.jsonl", trace(latency_ms=0.004, suspect=["busy"])), file("new.jsonl", trace()))
    assert twice.code == 2 and twice.row("fast_v1", "suspect")


@pytest.mark.parametrize("copy_ms", [0.0014, None])
def test_a_suspect_number_faster_than_a_copy_is_never_faster(fib, file, copy_ms):
    """What is too fast to be true is SUSPECT for that, and so may be what no copy is known of."""
    old = file("old.jsonl", trace())
    ceiling = {"ceiling": copy_ms and {"copy_ms": copy_ms, "empty_ms": 0.0006}}
    new = file("new.jsonl", trace(latency_ms=0.0001, suspect=["7% of a copy of the same bytes"], **ceiling))
    assert fib("compare", old, new, "--max-slowdown", "0.05").code == 2


@pytest.mark.parametrize("low", [0.0, 0.0005])
def test_a_gate_does_not_pass_what_it_cannot_resolve(fib, file, low):
    vague = {"latency_low_ms": low, "latency_high_ms": 0.004}
    old, new = file("old.jsonl", trace(**vague)), file("new.jsonl", trace(**vague, latency_ms=0.0022))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert outcome.err.endswith("1 of 1 cannot be judged; to accept that, add --allow unresolved\n")
    assert any(line.startswith("Not judged: fast_v1@batch=8: a slowdown below") for line in outcome.lines)
    accepted = fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "unresolved")
    assert accepted.code == 0 and "regression" not in accepted.out
    assert "Accepted by --allow: 1 of 1 that cannot be judged; they do not fail." in accepted.lines
    assert fib("compare", old, new, "--max-slowdown", "0").code == 0, "a limit of 0 asks for what is certainly slower"


def test_a_gate_tells_once_why_it_cannot_judge(fib, file):
    path = file("a", trace(), *(trace(f"odd_v{number}", suspect=["doubt"]) for number in range(5)))
    outcome = fib("compare", path, path, "--max-slowdown", "0.05")
    assert "5 of 6 cannot be judged" in outcome.err and "doubt" not in outcome.err
    told = [f"Not judged: odd_v{number}@batch=8: SUSPECT: OLD: doubt; NEW: doubt" for number in range(5)]
    assert [line for line in outcome.lines if "doubt" in line] == told


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
        and "1 not compared: no latency in either: the evaluations failed, or an interpreter ran them" in outcome.lines
    )


def test_a_gate_is_not_passed_by_what_another_version_of_the_definition_measured(fib, file):
    moved = {"solution": "moved_v1", "latency_ms": 0.04}
    old = file("old.jsonl", trace(), trace(**moved, definition_sha="cc1"))
    new = file("new.jsonl", trace(), trace(**moved, definition_sha="dd2"))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "NEW lacks 1 of OLD's results, or measured them differently" in outcome.err
    assert (
        "1 not compared: they differ in definition (OLD version cc1, NEW version dd2); to compare anyway: --allow"
        " definition"
    ) in " ".join(outcome.out.split())
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "missing").code == 0
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "definition").code == 0
    alone = fib("compare", old, new, "--max-slowdown", "0.05", "--solutions", "moved_v1")
    assert alone.code == 2 and "cannot be compared: they differ in definition" in alone.err


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


def test_a_gate_is_not_passed_by_what_cannot_be_read(fib, file):
    old, new = file("old.jsonl", trace()), file("new.jsonl", trace())
    new.write_text('{"definition": 1}\n' + new.read_text())
    assert fib("compare", old, new).code == 0
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "a file could not be read completely" in outcome.err
