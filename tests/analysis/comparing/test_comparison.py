"""What is compared with what, and how wide the intervals of differences are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.analysis.comparing.comparison import compare, estimate_drift
from fib_rmsnorm.analysis.difference import Estimate, RunLatency, find_difference
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


def test_a_failure_of_another_version_of_the_definition_is_not_a_regression():
    """What was right before may be wrong now, since something else is asked for."""
    old, new = record(**CC), record(latency_ms=None, definition_sha="dd2")
    with pytest.raises(InputError, match=r"they differ in definition \(OLD version cc1, NEW version dd2\)"):
        compare([old], [new])
    assert compare([old], [new], ["definition"]).comparisons[0].verdict == "now fails"


@pytest.mark.parametrize("older", [{"definition_sha": "dd2"}, {"sha": "x", **CC}], ids=["definition", "solution"])
def test_runs_of_an_older_version_do_not_count(older):
    old = [record(latency_ms=0.009, timestamp="2025", **older), record(timestamp="2026", **CC)]
    (found,) = compare(old, [record(**CC)]).comparisons
    assert found.verdict == "tie" and len(found.old) == 1


def test_runs_that_show_more_than_is_assumed_compare_with_those_of_another_kind_of_device():
    on_cpu = {"timer": "cpu_clock", "device_session": "a"}
    many = [record(latency_ms=ms, timestamp=f"{ms}", latency_low_ms=ms, **on_cpu) for ms in (1.0, 1.03, 1.06)]
    assert compare([record()], many, ["timer"]).comparisons[0].verdict == "slower"


@pytest.mark.parametrize(
    ("fast", "slow", "verdict"),
    [
        ((0.0107, 0.0, 0.0214), (0.156, 0.140, 0.172), "slower"),
        ((0.0107, 0.010, 0.011), (0.156, 0.150, 0.9), "slower"),
        ((0.0107, 0.010, 0.0214), (0.0156, 0.0, 0.017), "tie"),
        ((0.0107, 0.0, 0.020), (0.0156, 0.009, 0.017), "tie"),
    ],
    ids=["low end 0 of the faster", "high end of the slower", "low end 0 of the slower", "facing ends overlap"],
)
def test_only_the_ends_that_face_each_other_make_a_tie(fast, slow, verdict):
    """A slow trial on a busy CPU widens an interval to both sides, down to 0."""
    first, second = (RunLatency(each[0], Estimate(*each), "cpu_clock", "a") for each in (fast, slow))
    assert find_difference([first], [second]).verdict == verdict
    assert find_difference([second], [first]).verdict == {"slower": "faster"}.get(verdict, verdict)


def test_what_is_on_one_side_only_is_reported_and_nothing_in_common_is_an_error():
    with pytest.raises(InputError, match="no Solution and Workload in common"):
        compare([record("a")], [record("b")])
    found = compare([record("a"), record("b")], [record("a"), record("c")])
    assert found.notes == ("1 not compared: not in OLD", "1 not compared: not in NEW")


def test_one_count_stands_for_the_confidence_of_all_intervals():
    runs = [record(name, noisy=["the clock moved"]) for name in "ab"]
    found = compare(runs, runs)
    assert found.confidence == pytest.approx(0.95**0.5)


def run(**changes) -> RunLatency:
    return RunLatency.of(record(**changes))


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_the_interval_turns_round_with_the_sides(one, other):
    drift = estimate_drift([])
    there = find_difference([run(latency_ms=one)], [run(latency_ms=other)], drift)
    back = find_difference([run(latency_ms=other)], [run(latency_ms=one)], drift)
    assert there.low <= there.value <= there.high
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)


def test_calls_of_many_kernels_and_trials_that_scatter_drift_more():
    few, many = (run(latency_ms=0.027, pieces=pieces, timer="cupti", device_session="a") for pieces in (1, 9))
    assert find_difference([few], [few]).high < 1.01
    assert find_difference([many], [many]).high > 1.04
    quiet, loud = (run(timer="cpu_clock", trial_scatter=scatter, device_session="a") for scatter in (0.01, 0.2))
    assert find_difference([quiet], [quiet]).high < 1.1
    assert find_difference([loud], [loud]).high > 1.4
