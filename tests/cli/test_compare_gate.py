"""What `compare --max-slowdown` passes, fails, and cannot judge."""

import pytest

from support.trace_json import trace


def test_the_interval_decides_and_no_mark(fib, file):
    """+45% (+36% to +55%) is a regression, on however busy a machine."""
    wide = {"latency_low_ms": 0.00196, "latency_high_ms": 0.00204, "noisy": ["the clock moved"]}
    slow = {"latency_low_ms": 0.00284, "latency_high_ms": 0.00296, "noisy": ["the clock moved"]}
    old, new = file(trace(**wide)), file(trace(latency_ms=0.0029, **slow))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 1 and outcome.row("fast_v1", "+45.0%", "slower")
    assert "Regression: slower by more than 5%: fast_v1@batch=8" in outcome.lines
    assert "Noisy: fast_v1@batch=8: the clock moved" in outcome.lines
    found = fib("compare", old, new, "--max-slowdown", "0.05", "--json").json
    assert (found["regressions"], found["unjudged"]) == (1, 0)
    assert fib("compare", new, old, "--max-slowdown", "0.05").code == 0


def test_what_is_not_judged_is_counted_and_named_beside_what_is(fib, file):
    vague = {"solution": "odd_v1", "latency_low_ms": 0.001, "latency_high_ms": 0.004}
    path = file(trace(), trace(**vague))
    outcome = fib("compare", path, path, "--max-slowdown", "0.05")
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
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "the gate judged nothing: every interval is wider than the limit" in outcome.err
    assert outcome.row("fast_v1", "tie") and "o regression" not in outcome.out
    much = "up to " if low else "any factor apart"
    assert any(line.startswith(f"Not judged: fast_v1@batch=8 could still be {much}") for line in outcome.lines)
    assert ("No difference can be detected." in outcome.out) == (not low)
    found = fib("compare", old, new, "--max-slowdown", "0.05", "--json").json
    assert (found["regressions"], found["unjudged"]) == (0, 1)
    assert [each["is_judged"] for each in found["comparisons"]] == [False]
    assert fib("compare", old, new, "--max-slowdown", "0").code == 0, "a limit of 0 asks for what is certainly slower"


def test_a_gate_is_not_passed_by_what_is_missing(fib, file):
    """Without --max-slowdown it is a comparison of what there is."""
    slow = trace(solution="slow_v1", latency_ms=0.003)
    old, new = file(trace(), slow), file(trace())
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
    old = file(trace(), trace(**moved))
    for other in ({"cold_l2": False}, {"interpreted": True}):
        new = file(trace(), trace(**moved, **other))
        assert fib("compare", old, new).code == 0
        outcome = fib("compare", old, new, "--max-slowdown", "0.05")
        assert outcome.code == 2 and "NEW lacks 1 of OLD's results, or measured them differently" in outcome.err
        assert "1 not compared" in outcome.out
        assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "missing").code == 0
    failed = trace(**moved, latency_ms=None)
    old, new = file(trace(), failed), file(trace(), failed)
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert (
        outcome.code == 0
        and "1 not compared: no latency in either: the evaluations failed, or an interpreter ran them" in outcome.lines
    )


def test_a_gate_is_not_passed_by_what_another_version_of_the_definition_measured(fib, file):
    moved = {"solution": "moved_v1", "latency_ms": 0.04}
    old = file(trace(), trace(**moved, definition_sha="cc1"))
    new = file(trace(), trace(**moved, definition_sha="dd2"))
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "NEW lacks 1 of OLD's results, or measured them differently" in outcome.err
    assert (
        "1 not compared: they differ in definition (OLD version cc1, NEW version dd2); to compare anyway: --allow"
        " definition"
    ) in " ".join(outcome.out.split())
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "missing").code == 0
    assert fib("compare", old, new, "--max-slowdown", "0.05", "--allow", "definition").code == 0
    alone = fib("compare", old, new, "--max-slowdown", "0.05", "--solutions", "moved_v1")
    assert "cannot be compared: they differ in definition" in alone.refusal


def test_a_gate_is_not_passed_by_a_kernel_that_now_writes_nothing(fib, file):
    """As bench writes it: what JSON has no number for is a string. The older PASSED Trace is there too."""
    failed = trace(latency_ms=None, status="INCORRECT_NUMERICAL", timestamp="2026-02-01", sha="cc")
    failed["evaluation"]["correctness"] = {"max_relative_error": "Infinity", "max_absolute_error": "NaN"}
    old = file(trace())
    new = file(trace(timestamp="2026-01-03"), failed)
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
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
    outcome = fib("compare", old, new, "--max-slowdown", "0.05")
    assert outcome.code == 2 and "a file could not be read completely" in outcome.err
