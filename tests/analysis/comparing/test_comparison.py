from __future__ import annotations

import pytest

from fib_rmsnorm.analysis.comparing.comparison import compare
from fib_rmsnorm.errors import InputError
from support.trace_json import record


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hardware": "NVIDIA A100"}, "they differ in device (OLD NVIDIA H200, NEW NVIDIA A100)"),
        ({"timer": "cuda_events"}, "timer (OLD cupti, NEW cuda_events); to compare anyway: --allow timer"),
        ({"clock": 1530.0}, "clock (OLD 1980 MHz, NEW 1530 MHz)"),
        ({"cold_l2": False}, "cache (OLD cold L2, NEW warm L2)"),
    ],
)
def test_other_conditions_are_refused_unless_allowed(change, said):
    with pytest.raises(InputError) as raised:
        compare([record()], [record(**change)])
    assert said in str(raised.value)
    names = str(raised.value).rpartition("--allow ")[2].split(",")
    assert len(compare([record()], [record(**change)], names).comparisons) == 1


def test_a_clock_a_little_off_is_the_same():
    assert len(compare([record(clock=1980.0)], [record(clock=1965.0)]).comparisons) == 1


def test_nothing_in_common_is_an_error():
    with pytest.raises(InputError, match="no Solution and Workload in common"):
        compare([record("a")], [record("b")])


def test_what_fails_now_is_a_regression():
    found = compare([record()], [record(latency_ms=None)])
    assert [each.verdict for each in found.regressions(0.5)] == ["now fails"]


def test_a_suspect_number_is_never_a_verdict():
    found = compare([record()], [record(latency_ms=0.01, suspect=["doubt"])])
    assert found.comparisons[0].verdict == "suspect" and not found.regressions(0.0)


def test_the_limit_is_on_what_was_measured():
    found = compare([record()], [record(latency_ms=0.0022)])
    assert len(found.regressions(0.05)) == 1 and not found.regressions(0.2)


def test_runs_of_an_older_content_do_not_count():
    old = [record(latency_ms=0.009, sha="x", timestamp="2025"), record(latency_ms=0.002, timestamp="2026")]
    assert compare(old, [record()]).comparisons[0].verdict == "no different"


def test_what_is_on_one_side_only_is_said():
    found = compare([record("a"), record("b")], [record("a"), record("c")])
    assert found.notes == ("1 not compared: not in OLD", "1 not compared: not in NEW")
