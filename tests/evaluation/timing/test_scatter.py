"""How far the calls and the trials of a measurement lie apart."""

from __future__ import annotations

import math
import random

import pytest

from fib_rmsnorm.evaluation.timing.latency_statistics import Scatter, measure_scatter


def scatter(*medians: float, noise: float = 0.01, calls: int = 40) -> Scatter:
    source = random.Random(1)
    trials = [[median * (1 + noise * abs(source.gauss(0, 1))) for _ in range(calls)] for median in medians]
    return measure_scatter(trials, 0.0)


def test_the_interval_is_as_wide_as_the_trials_lie_apart():
    assert scatter(*[1.0] * 8).interval.relative_to(1.0) < 0.01
    assert scatter(1.0, 1.4, 1.4, 1.0).interval.relative_to(1.2) > 0.2


def test_the_halves_tell_a_drift():
    assert scatter(*[1.0] * 8, *[1.08] * 8).a_a_difference == pytest.approx(0.08, abs=0.01)


def test_slow_calls_are_in_the_percentiles():
    source = random.Random(1)
    found = measure_scatter([[source.choice((*[1.0] * 9, 40.0)) for _ in range(100)] for _ in range(8)], 0.0)
    assert (found.latency_ms, found.p5_ms, found.p95_ms) == (1.0, 1.0, 40.0)


def test_one_call_has_no_interval():
    assert math.isinf(measure_scatter([[1.0]], 0.0).interval.high)


def test_a_trial_without_calls_is_no_trial():
    assert measure_scatter([[1.0, 1.1], [], [1.2, 1.3]], 0.0) == measure_scatter([[1.0, 1.1], [1.2, 1.3]], 0.0)
