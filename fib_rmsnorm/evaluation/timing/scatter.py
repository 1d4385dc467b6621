"""How far the calls and the trials of a measurement lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from fib_rmsnorm.evaluation.timing.latency_statistics import (
    Interval,
    a_a_difference,
    grouped_median,
    latency_interval,
)


@dataclass(frozen=True)
class Scatter:
    """A median with all that says how sure it is."""

    latency_ms: float
    interval: Interval
    p5_ms: float
    p95_ms: float
    a_a_difference: float | None


def measure_scatter(trials: Sequence[Sequence[float]], tick: float) -> Scatter:
    """Sum up the calls of trials."""
    samples = [sample for trial in trials for sample in trial]
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    return Scatter(grouped_median(samples, tick), latency_interval(trials, tick), p5, p95, a_a_difference(trials, tick))
