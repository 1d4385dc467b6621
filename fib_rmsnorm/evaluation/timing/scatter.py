"""How far the calls and the trials of a measurement lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles

from fib_rmsnorm.evaluation.timing.latency_statistics import (
    Interval,
    a_a_difference,
    grouped_median,
    latency_interval,
)
from fib_rmsnorm.evaluation.timing.trial_times import ChosenCalls


@dataclass(frozen=True)
class Scatter:
    """A median with all that says how sure it is."""

    latency_ms: float
    interval: Interval
    p5_ms: float
    p95_ms: float
    a_a_difference: float | None
    of_trials: float
    """How far the medians of the trials lie from each other, relative to their median, as a standard deviation."""


def measure_scatter(trials: Sequence[Sequence[float]], tick: float) -> Scatter:
    """Sum up the calls of trials, of which some may have none."""
    trials = [trial for trial in trials if trial]
    samples = [sample for trial in trials for sample in trial]
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    return Scatter(
        latency_ms=grouped_median(samples, tick),
        interval=latency_interval(trials, tick),
        p5_ms=p5,
        p95_ms=p95,
        a_a_difference=a_a_difference(trials, tick),
        of_trials=_relative_scatter([grouped_median(trial, tick) for trial in trials]),
    )


def _relative_scatter(medians: Sequence[float]) -> float:
    """By their quartiles, which lie 1.349 standard deviations apart where values are normal: few are outliers."""
    if len(medians) < 3 or min(medians) <= 0:
        return 0.0
    low, _, high = quantiles(map(math.log, medians), n=4, method="inclusive")
    return (high - low) / 1.349


def measure_calls(calls: ChosenCalls, tick: float) -> Scatter:
    """Sum up the calls that count. Of disturbed ones, the interval is an upper bound alone."""
    scatter = measure_scatter(calls.trials_ms, tick)
    if calls.doubt is None:
        return scatter
    high = measure_scatter(calls.all_ms, tick).interval.high
    return replace(scatter, interval=Interval(0.0, max(scatter.latency_ms, high)))
