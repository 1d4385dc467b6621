"""What timed samples say, and how sure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

from fib_rmsnorm.student_t import t_quantile

_Z_95 = 1.96
# Of which a scatter says anything.
_FEWEST_TRIALS = 3


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval."""

    low: float
    high: float

    def relative_to(self, value: float) -> float:
        """Half the interval's width over `value`."""
        return (self.high - self.low) / 2 / value if value else math.inf


def unround(samples: Sequence[float], tick: float) -> list[float]:
    """Values that a clock has rounded to multiples of `tick`, in order, each tick's spread evenly over it.

    A GPU's clock ticks every 32 ns, 2% of a kernel of 1.6 us: the plain median, and each end of its interval, would
    always be a tick. (Converted to nanoseconds of another clock, equal ticks may also differ by one of those.)
    """
    if not tick:
        return sorted(samples)
    counts = Counter(round(sample / tick) for sample in samples)
    return [
        tick * (position - 0.5 + (index + 0.5) / count)
        for position, count in sorted(counts.items())
        for index in range(count)
    ]


def middle(samples: Sequence[float], tick: float) -> float:
    """The median of values that a clock has rounded to multiples of `tick`: the grouped median."""
    return median(unround(samples, tick))


def median_interval(samples: Sequence[float], tick: float) -> Interval:
    """Confidence interval of the median by order statistics: it assumes nothing of the distribution.

    The number of samples below the true median is binomial(n, 1/2); the normal approximation gives the ranks
    (Conover 1999, "Practical Nonparametric Statistics", section 3.2).
    """
    ordered = unround(samples, tick)
    n = len(ordered)
    if n < 2:
        return Interval(0.0, math.inf)
    spread = _Z_95 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - spread))
    high = min(n - 1, math.ceil(n / 2 + spread))
    return Interval(ordered[low], ordered[high])


def latency_interval(trials: Sequence[Sequence[float]], tick: float) -> Interval:
    """Confidence interval of the median of all trials' samples: by their calls, or by trials if that is wider.

    The calls of a trial share where their tensors lie in memory, so trials scatter more than their calls tell: by three
    times for a kernel of 2 us on an H200. What trials scatter by is taken as normal (Student's t).
    """
    samples = [sample for trial in trials for sample in trial]
    by_calls = median_interval(samples, tick)
    if len(trials) < _FEWEST_TRIALS:
        return by_calls
    latency = middle(samples, tick)
    medians = [middle(trial, tick) for trial in trials]
    either_side = t_quantile(0.95, len(medians) - 1) * stdev(medians) / math.sqrt(len(medians))
    return Interval(max(0.0, min(by_calls.low, latency - either_side)), max(by_calls.high, latency + either_side))


def trial_ratios(
    numerators: Sequence[Sequence[float]], denominators: Sequence[Sequence[float]], tick: float
) -> list[float]:
    """Ratio of medians for each pair of trials that were measured beside each other."""
    pairs = [(middle(n, tick), middle(d, tick)) for n, d in zip(numerators, denominators, strict=True)]
    return [numerator / denominator for numerator, denominator in pairs if denominator]


def a_a_difference(trials: Sequence[Sequence[float]], tick: float) -> float | None:
    """How far the median of the later half of trials lies from the earlier half's, relative to it; None with one trial.

    Single trials would differ by where their tensors lie as much as by drift.
    """
    half = len(trials) // 2
    if not half:
        return None
    earlier, later = ([sample for trial in some for sample in trial] for some in (trials[:half], trials[-half:]))
    first = middle(earlier, tick)
    return abs(middle(later, tick) - first) / first if first else None
