from __future__ import annotations

import math
import random

import pytest

from fib_rmsnorm.evaluation.timing.latency_statistics import latency_interval, median_interval

TICK_MS = 32e-6
CALLS = 40


def test_trials_that_vary_more_than_their_calls_widen_the_interval():
    trials = [[centre] * CALLS for centre in (0.0019, 0.002, 0.002, 0.0021)]
    # Student's t of 3 degrees of freedom is 3.18; the standard deviation is 82 ns, over the root of 4 trials.
    assert latency_interval(trials, 0.0).relative_to(0.002) == pytest.approx(0.065, abs=0.001)


@pytest.mark.parametrize("trials", [1, 2, 4])
def test_trials_that_agree_leave_the_interval_of_the_calls(trials):
    calls = [0.002 + index * 1e-6 for index in range(CALLS)]
    assert latency_interval([calls] * trials, TICK_MS) == median_interval(calls * trials, TICK_MS)


def test_the_interval_contains_the_true_latency_about_as_often_as_promised():
    source = random.Random(1)
    holds = 0
    for _ in range(300):
        centres = [source.gauss(0.002, 0.00003) for _ in range(8)]
        trials = [[source.gauss(centre, 0.0001) for _ in range(CALLS)] for centre in centres]
        interval = latency_interval(trials, 0.0)
        holds += interval.low < 0.002 < interval.high
    assert holds > 0.9 * 300


@pytest.mark.parametrize("count", [20, 40, 200])
def test_95_of_100_intervals_hold_the_median(count):
    """Order statistics hold it a little more often where samples are few."""
    chance = random.Random(count)
    intervals = [median_interval([chance.expovariate(1) for _ in range(count)], 0.0) for _ in range(2000)]
    assert 0.94 <= sum(each.low <= math.log(2) <= each.high for each in intervals) / 2000 <= 0.99
