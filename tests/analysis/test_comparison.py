from __future__ import annotations

import itertools
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_json import trace

from fib_rmsnorm.analysis.comparison import compare
from fib_rmsnorm.analysis.decoding import decode
from fib_rmsnorm.analysis.difference import estimate_drift, find_difference, share_confidence
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.statistics import median_interval, middle

# As in the committed traces of an H200 at batch 1 to 32: the clock's tick, and the spread of the calls of a run
# (5% to 95%: 1.57 to 1.86 us of 1.65).
TICK_MS = 32e-6
CALL_NOISE = 0.05
TRIALS, CALLS = 4, 80
DRIFT = 0.01
"""Standard deviation of a median of 2 us from run to run, as two benches of the same machine model show (0.9%)."""


def record(*arguments, **changes):
    return decode(json.dumps(trace(*arguments, **changes)).encode(), "t.jsonl", 1, None)


def run(source: random.Random, latency_ms: float, drift: float, batch: int = 8, number: int = 0):
    """A run as the evaluator would record it: its own drift, calls that scatter with a tail, a clock that ticks."""
    centre = latency_ms * math.exp(source.gauss(0, drift))
    calls = [
        [
            round(centre * (1 + abs(source.gauss(0, CALL_NOISE)) * source.choice((-0.7, 1))) / TICK_MS) * TICK_MS
            for _ in range(CALLS)
        ]
        for _ in range(TRIALS)
    ]
    samples = list(itertools.chain(*calls))
    interval = median_interval(samples, TICK_MS)
    return record(
        batch=batch,
        latency_ms=middle(samples, TICK_MS),
        latency_low_ms=interval.low,
        latency_high_ms=interval.high,
        trial_medians_ms=[middle(trial, TICK_MS) for trial in calls],
        timestamp=f"2026-01-01T00:{number:02}",
    )


def runs(source, latency_ms, number, drift=DRIFT, batches=(8,)):
    return [run(source, latency_ms, drift, batch, each) for each in range(number) for batch in batches]


def verdicts(source, *, slowdown: float, number: int, times: int, drift=DRIFT) -> list[str]:
    return [
        compare(runs(source, 0.002, number, drift), runs(source, 0.002 * slowdown, number, drift))
        .comparisons[0]
        .verdict
        for _ in range(times)
    ]


@pytest.mark.parametrize("number", [1, 3])
def test_of_200_equal_pairs_at_most_5_percent_are_called_different(number):
    found = verdicts(random.Random(number), slowdown=1.0, number=number, times=200)
    assert sum(verdict != "no different" for verdict in found) <= 10


def test_three_runs_a_side_find_a_slowdown_of_5_percent():
    found = verdicts(random.Random(1), slowdown=1.05, number=3, times=100)
    assert found.count("slower") >= 95


def test_one_run_a_side_finds_it_when_processes_differ_by_1_percent():
    """A difference between two processes of 1% is a drift of 0.7% in each."""
    found = verdicts(random.Random(1), slowdown=1.05, number=1, times=100, drift=0.01 / math.sqrt(2))
    assert found.count("slower") > 90


def test_one_run_a_side_always_finds_a_slowdown_of_10_percent():
    assert set(verdicts(random.Random(1), slowdown=1.1, number=1, times=100)) == {"slower"}


def test_eight_workloads_together_raise_no_more_false_alarms_than_one():
    source = random.Random(5)
    batches = tuple(range(1, 9))
    alarms = 0
    for _ in range(200):
        found = compare(runs(source, 0.002, 3, batches=batches), runs(source, 0.002, 3, batches=batches))
        alarms += any(each.verdict != "no different" for each in found.comparisons)
    assert alarms <= 10


def test_repeated_runs_correct_an_assumption_that_is_too_low():
    source = random.Random(2)
    batches = tuple(range(1, 9))
    alarms = 0
    for _ in range(40):
        sides = [runs(source, 0.002, 5, drift=0.03, batches=batches) for _ in range(2)]
        alarms += any(each.verdict != "no different" for each in compare(*sides).comparisons)
    assert alarms <= 8  # by the assumption alone nearly all would be


def test_the_drift_is_what_repeats_show():
    source = random.Random(3)
    groups = [[run(source, 0.002, 0.03) for _ in range(4)] for _ in range(60)]
    drift = estimate_drift(groups)
    assert drift.deviation(groups[0][0]) == pytest.approx(0.03, rel=0.15) and drift.repeats == 180
    assert estimate_drift([]).deviation(record(latency_ms=0.002)) == pytest.approx(DRIFT, rel=0.15)


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_the_interval_turns_round_with_the_sides(one, other):
    drift = estimate_drift([])
    there = find_difference([record(latency_ms=one)], [record(latency_ms=other)], drift)
    back = find_difference([record(latency_ms=other)], [record(latency_ms=one)], drift)
    assert there.low <= there.value <= there.high
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)


def test_a_long_kernel_drifts_less_and_so_do_smaller_differences_show():
    drift = estimate_drift([])
    short, long = (find_difference([record(latency_ms=ms)], [record(latency_ms=ms)], drift) for ms in (0.002, 0.2))
    assert long.high - 1 < 0.02
    assert short.high - 1 > 0.025


def test_more_runs_tell_smaller_differences():
    drift = estimate_drift([])
    widths = [find_difference([record()] * n, [record()] * n, drift).high for n in (1, 2, 4, 8)]
    assert widths == sorted(widths, reverse=True)


def test_together_the_intervals_hold_as_stated():
    assert share_confidence(1) == 0.95
    assert share_confidence(20) ** 20 == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hardware": "NVIDIA A100"}, "they differ in device (OLD NVIDIA H200, NEW NVIDIA A100)"),
        ({"timer": "cuda_events"}, "timer (OLD cupti, NEW cuda_events); to compare all the same: --allow timer"),
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
