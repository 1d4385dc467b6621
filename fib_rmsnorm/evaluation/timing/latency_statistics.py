"""Medians of timed samples, their confidence intervals, how far calls and trials lie apart, and calls in a graph."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles, stdev
from typing import Annotated, Any

from pydantic import Field

from fib_rmsnorm.evaluation.timing.timer import Latency, Sample
from fib_rmsnorm.student_t import Z_95, t_quantile

LINKS = 40
"""The links of a graph. An event's clock ticks every 0.5 us, which is 1% of a call of 1 us this way."""
_CHAIN_GOAL = 0.01
# With fewer trials, their standard deviation means little.
_MIN_TRIALS = 3
# The fewest calls of which some make a 95% interval of their median.
_FEWEST_UNDISTURBED = 6
# A smaller share of the cores is not named as a cause.
_LEAST_CAUSE = 0.02


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval."""

    low: float
    high: float

    def relative_to(self, value: float) -> float:
        """Half the interval's width over `value`."""
        return (self.high - self.low) / 2 / value if value else math.inf


def spread_ticks(samples: Sequence[float], tick: float) -> list[float]:
    """Sort values that a clock has rounded to multiples of `tick`, and spread equal ones evenly over their tick.

    A GPU's clock ticks every 32 ns, which is 2% of a kernel of 1.6 us: without this, the median and the ends of its
    interval would always be multiples of a tick. (Conversion to another clock may move equal ticks by 1 ns.)
    """
    if not tick:
        return sorted(samples)
    counts = Counter(round(sample / tick) for sample in samples)
    return [
        tick * (position - 0.5 + (index + 0.5) / count)
        for position, count in sorted(counts.items())
        for index in range(count)
    ]


def grouped_median(samples: Sequence[float], tick: float) -> float:
    """The median of values that a clock has rounded to multiples of `tick`: the grouped median."""
    return median(spread_ticks(samples, tick))


def median_interval(samples: Sequence[float], tick: float) -> Interval:
    """Confidence interval of the median by order statistics, which assume nothing about the distribution.

    The number of samples below the true median is binomial(n, 1/2); the normal approximation gives the ranks
    (Conover 1999, "Practical Nonparametric Statistics", section 3.2).
    """
    ordered = spread_ticks(samples, tick)
    n = len(ordered)
    if n < 2:
        return Interval(0.0, math.inf)
    spread = Z_95 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - spread))
    high = min(n - 1, math.ceil(n / 2 + spread))
    return Interval(ordered[low], ordered[high])


def latency_interval(trials: Sequence[Sequence[float]], tick: float) -> Interval:
    """Confidence interval of the median of all samples: from the calls, or from the trials if that is wider.

    The calls of a trial share a few places of their tensors, so trials may vary more than their calls suggest: with one
    place, three times as much for a kernel of 2 us on an H200. The medians of trials are taken as normally distributed
    (Student's t).
    """
    samples = [sample for trial in trials for sample in trial]
    by_calls = median_interval(samples, tick)
    if len(trials) < _MIN_TRIALS:
        return by_calls
    latency = grouped_median(samples, tick)
    medians = [grouped_median(trial, tick) for trial in trials]
    either_side = t_quantile(0.95, len(medians) - 1) * stdev(medians) / math.sqrt(len(medians))
    return Interval(max(0.0, min(by_calls.low, latency - either_side)), max(by_calls.high, latency + either_side))


def a_a_difference(trials: Sequence[Sequence[float]], tick: float) -> float | None:
    """The relative difference between the medians of the later and the earlier half of trials; None for one trial.

    Halves, because single trials differ by the addresses of their tensors as much as by drift.
    """
    half = len(trials) // 2
    if not half:
        return None
    earlier, later = ([sample for trial in some for sample in trial] for some in (trials[:half], trials[-half:]))
    first = grouped_median(earlier, tick)
    return abs(grouped_median(later, tick) - first) / first if first else None


@dataclass(frozen=True)
class Scatter:
    """A median with all that says how sure it is."""

    latency_ms: float
    interval: Interval
    p5_ms: float
    p95_ms: float
    a_a_difference: float | None
    samples: int
    medians_ms: list[float]
    """The medians of the trials that had calls."""
    of_trials: float
    """How far these lie from each other, relative to their median, as a standard deviation."""
    doubt: str | None = None
    """Why the median is only an upper bound: too few calls were undisturbed. None if enough were."""


def measure_scatter(trials: Sequence[Sequence[float]], tick: float) -> Scatter:
    """Sum up the calls of trials, of which some may have none."""
    trials = [trial for trial in trials if trial]
    samples = [sample for trial in trials for sample in trial]
    medians_ms = [grouped_median(trial, tick) for trial in trials]
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    return Scatter(
        latency_ms=grouped_median(samples, tick),
        interval=latency_interval(trials, tick),
        p5_ms=p5,
        p95_ms=p95,
        a_a_difference=a_a_difference(trials, tick),
        samples=len(samples),
        medians_ms=medians_ms,
        of_trials=_relative_scatter(medians_ms),
    )


def _relative_scatter(medians: Sequence[float]) -> float:
    """By their quartiles, which lie 1.349 standard deviations apart where values are normal: few are outliers."""
    if len(medians) < _MIN_TRIALS or min(medians) <= 0:
        return 0.0
    low, _, high = quantiles(map(math.log, medians), n=4, method="inclusive")
    return (high - low) / 1.349


def choose_undisturbed(samples: Sequence[Sample]) -> list[float]:
    """The times of the calls whose threads did not have to wait for a core."""
    return [sample.span_ms for sample in samples if not sample.is_disturbed]


def measure_calls(trials: Sequence[Sequence[Sample]], tick: float, other_share: float | None = None) -> Scatter:
    """Sum up the undisturbed calls of trials. If they are too few, the interval is an upper bound alone.

    All calls count if none was undisturbed, or if they are too few though nobody else used the cores: `other_share` is
    the share of the cores that other processes took meanwhile, if known.
    """
    undisturbed = [choose_undisturbed(trial) for trial in trials]
    timed, found = (sum(map(len, some)) for some in (trials, undisturbed))
    if found >= min(_FEWEST_UNDISTURBED, timed / 2):
        return measure_scatter(undisturbed, tick)
    of_all = measure_scatter([[sample.span_ms for sample in trial] for trial in trials], tick)
    if other_share is not None and other_share < _LEAST_CAUSE:
        return of_all  # a call's own threads are more than the cores
    cause = "" if other_share is None else f": other processes took {other_share:.0%} of the cores"
    scatter = measure_scatter(undisturbed, tick) if found else of_all
    interval = Interval(0.0, max(scatter.latency_ms, of_all.interval.high))
    return replace(scatter, interval=interval, doubt=f"only {found} of {timed} calls undisturbed{cause}")


@dataclass(frozen=True)
class ChainTimes:
    """The milliseconds that each replay of a graph of links took, with the calls and without them."""

    with_ms: Annotated[list[Latency], Field(min_length=1)]
    without_ms: Annotated[list[Latency], Field(min_length=1)]

    @property
    def call_ms(self) -> list[float]:
        """The cost of a call, by replay: both graphs ran one right after the other, so that a drift cancels out."""
        return [(full - bare) / LINKS for full, bare in zip(self.with_ms, self.without_ms, strict=False)]


def has_precise_cost(trials: Sequence[ChainTimes]) -> bool:
    """Whether the interval of a call's cost is within 1%."""
    scatter = measure_scatter([trial.call_ms for trial in trials], 0.0)
    return scatter.latency_ms > 0 and scatter.interval.relative_to(scatter.latency_ms) <= _CHAIN_GOAL


def sum_up_chain(kind: str, trials: Sequence[ChainTimes]) -> dict[str, Any]:
    """The fields of the schema's Chain that begin with `kind`: the cost of a call with its interval."""
    if not trials:
        return {}
    scatter = measure_scatter([trial.call_ms for trial in trials], 0.0)
    found = {
        "latency_ms": scatter.latency_ms,
        "low_ms": scatter.interval.low,
        "high_ms": scatter.interval.high,
        "a_a_difference": scatter.a_a_difference,
        "bare_link_ms": median(bare for trial in trials for bare in trial.without_ms) / LINKS,
        "replays": sum(len(trial.with_ms) for trial in trials),
    }
    return {f"{kind}_{name}": value for name, value in found.items()}
