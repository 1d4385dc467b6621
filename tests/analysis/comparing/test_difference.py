from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.analysis.comparing.difference import estimate_drift, find_difference, imbalance, share_confidence
from fib_rmsnorm.analysis.trace_record import RunLatency
from support.trace_json import record


def run(**changes) -> RunLatency:
    return RunLatency.of(record(**changes))


def test_the_drift_is_what_repeats_show():
    source = random.Random(10)
    groups = [
        [run(latency_ms=0.002 * math.exp(source.gauss(0, 0.03)), device_session="a") for _ in range(4)]
        for _ in range(60)
    ]
    drift = estimate_drift(groups)
    assert drift.deviation(groups[0][0]) == pytest.approx(0.03, rel=0.15) and drift.repeats == 180
    assert estimate_drift([]).deviation(run(latency_ms=0.002)) == pytest.approx(0.006, rel=0.15)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [("a", "a", 0), ("a", "b", 2), ("ab", "cd", 1), ("ab", "ab", 0), ("aa", "ab", 0.5), ("**", "**", 2), ("*", "a", 2)],
)
def test_sessions_count_by_how_unevenly_they_lie(old, new, parts):
    sides = [[run(device_session=None if letter == "*" else letter) for letter in letters] for letters in (old, new)]
    assert imbalance(*sides) == pytest.approx(parts)


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_the_interval_turns_round_with_the_sides(one, other):
    drift = estimate_drift([])
    there = find_difference([run(latency_ms=one)], [run(latency_ms=other)], drift)
    back = find_difference([run(latency_ms=other)], [run(latency_ms=one)], drift)
    assert there.low <= there.value <= there.high
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)


def test_a_long_kernel_drifts_less_and_so_do_smaller_differences_show():
    drift = estimate_drift([])
    short, long = (find_difference([run(latency_ms=ms)], [run(latency_ms=ms)], drift) for ms in (0.002, 0.2))
    assert long.high - 1 < 0.02
    assert short.high - 1 > 0.025


def test_calls_of_many_kernels_and_trials_that_scatter_drift_more():
    few, many = (run(latency_ms=0.027, pieces=pieces, timer="cupti", device_session="a") for pieces in (1, 9))
    assert find_difference([few], [few]).high < 1.01
    assert find_difference([many], [many]).high > 1.04
    quiet, loud = (run(timer="cpu_clock", trial_scatter=scatter, device_session="a") for scatter in (0.01, 0.2))
    assert find_difference([quiet], [quiet]).high < 1.1
    assert find_difference([loud], [loud]).high > 1.4


def test_more_runs_tell_smaller_differences():
    drift = estimate_drift([])
    widths = [find_difference([run()] * n, [run()] * n, drift).high for n in (1, 2, 4, 8)]
    assert widths == sorted(widths, reverse=True)


def test_together_the_intervals_hold_as_stated():
    assert share_confidence(1) == 0.95
    assert share_confidence(20) ** 20 == pytest.approx(0.95)
