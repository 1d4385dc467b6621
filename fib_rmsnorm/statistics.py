"""Student's t, for intervals from few points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, stdev

# Beyond this many the normal distribution differs by less than 0.5%.
_MANY = 400
FEWEST_TRIALS = 3
"""Of which a scatter says anything."""


@dataclass(frozen=True)
class Estimate:
    """A value and its confidence interval."""

    value: float
    low: float
    high: float


def t_central_probability(t: float, freedom: int) -> float:
    """The probability that |T| < t, for a whole number of degrees of freedom.

    The finite sums of Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(freedom))
    squared = math.cos(theta) ** 2
    is_odd = freedom % 2
    term = math.cos(theta) if is_odd else 1.0
    total = 0.0
    for step in range(1 + is_odd, freedom, 2):
        total += term
        term *= squared * step / (step + 1)
    if is_odd:
        return (theta + math.sin(theta) * total) * 2 / math.pi
    return math.sin(theta) * total


@lru_cache(maxsize=256)
def t_quantile(confidence: float, freedom: int) -> float:
    """The t that |T| stays below with probability `confidence`."""
    if freedom > _MANY:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, 1.0
    while t_central_probability(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if t_central_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def latency_interval(
    latency: float, low: float | None, high: float | None, trial_medians: Sequence[float] | None
) -> tuple[float, float] | None:
    """The 95% interval of a median: that of its calls, or what its trials scatter by (Student's t) if that is wider.

    The calls of a trial share where their tensors lie in memory, so trials scatter more than their calls tell: by three
    times for a kernel of 2 us on an H200. None where a Trace has no interval.
    """
    if low is None or high is None:
        return None
    medians = [value for value in trial_medians or () if value > 0]
    if len(medians) >= FEWEST_TRIALS:
        half = t_quantile(0.95, len(medians) - 1) * stdev(medians) / math.sqrt(len(medians))
        low, high = max(0.0, min(low, latency - half)), max(high, latency + half)
    return low, high
