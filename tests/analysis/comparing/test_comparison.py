from __future__ import annotations

import pytest

from fib_rmsnorm.analysis.comparing.comparison import compare
from fib_rmsnorm.errors import InputError
from support.trace_json import record

CC = {"definition_sha": "cc1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hardware": "NVIDIA A100"}, "they differ in device (OLD NVIDIA H200, NEW NVIDIA A100)"),
        ({"timer": "cuda_events"}, "timer (OLD cupti, NEW cuda_events); to compare anyway: --allow timer"),
        ({"clock": 1530.0}, "clock (OLD 1980 MHz, NEW 1530 MHz)"),
        ({"cold_l2": False}, "cache (OLD cold L2, NEW warm L2)"),
        (
            {"definition_sha": "dd2"},
            "definition (OLD version cc1, NEW version dd2); to compare anyway: --allow definition",
        ),
    ],
)
def test_other_conditions_are_refused_unless_allowed(change, said):
    with pytest.raises(InputError) as raised:
        compare([record(**CC)], [record(**{**CC, **change})])
    assert said in str(raised.value)
    names = str(raised.value).rpartition("--allow ")[2].split(",")
    assert len(compare([record(**CC)], [record(**{**CC, **change})], names).comparisons) == 1


def test_a_failure_of_another_version_of_the_definition_is_no_regression():
    """What was right before may be wrong now, since something else is asked for."""
    old, new = record(**CC), record(latency_ms=None, definition_sha="dd2")
    with pytest.raises(InputError, match=r"they differ in definition \(OLD version cc1, NEW version dd2\)"):
        compare([old], [new])
    assert compare([old], [new], ["definition"]).comparisons[0].verdict == "now fails"


def test_a_trace_that_tells_no_version_of_its_definition_is_compared_with_any():
    """As flashinfer-bench writes them."""
    assert len(compare([record()], [record(**CC)]).comparisons) == 1
    assert len(compare([record(**CC)], [record()]).comparisons) == 1


def test_of_several_versions_of_a_definition_the_newest_counts():
    old = [record(latency_ms=0.009, timestamp="2025", definition_sha="dd2"), record(timestamp="2026", **CC)]
    (found,) = compare(old, [record(**CC)]).comparisons
    assert found.verdict == "tie" and len(found.old) == 1


def test_a_clock_a_little_off_is_the_same():
    assert len(compare([record(clock=1980.0)], [record(clock=1965.0)]).comparisons) == 1


def test_nothing_in_common_is_an_error():
    with pytest.raises(InputError, match="no Solution and Workload in common"):
        compare([record("a")], [record("b")])


def test_what_fails_now_is_a_regression():
    found = compare([record()], [record(latency_ms=None)], max_slowdown=0.5)
    assert [each.verdict for each in found.regressions] == ["now fails"]


def test_the_limit_is_on_what_was_measured():
    found = [compare([record()], [record(latency_ms=0.0022)], max_slowdown=limit) for limit in (0.05, 0.2)]
    assert [len(each.regressions) for each in found] == [1, 0]


def test_runs_of_an_older_content_do_not_count():
    old = [record(latency_ms=0.009, sha="x", timestamp="2025"), record(latency_ms=0.002, timestamp="2026")]
    assert compare(old, [record()]).comparisons[0].verdict == "tie"


def test_what_is_on_one_side_only_is_said():
    found = compare([record("a"), record("b")], [record("a"), record("c")])
    assert found.notes == ("1 not compared: not in OLD", "1 not compared: not in NEW")


def test_rounds_in_turn_are_compared_as_pairs():
    """What slows both sides of a round cancels out; between rounds it is not a difference, and hides none."""
    busy = (1.0, 1.4, 1.1)
    old, new = (
        [
            record(latency_ms=ms * times, timer="cpu_clock", timestamp=f"2026-0{number}")
            for number, times in enumerate(busy, 1)
        ]
        for ms in (0.002, 0.0018)
    )
    assert compare(old, new).comparisons[0].verdict == "tie"
    (found,) = compare(old, new, in_turn=True).comparisons
    assert found.verdict == "faster" and found.ratio.value == pytest.approx(0.9)


def test_one_count_stands_for_the_confidence_of_all_intervals():
    found = compare(*([record(name, noisy=["the clock moved"]) for name in "ab"] for _ in range(2)))
    assert found.confidence == pytest.approx(0.95**0.5)
