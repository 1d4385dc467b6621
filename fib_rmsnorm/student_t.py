"""Student's t, for intervals from few points."""

import math
from functools import lru_cache
from statistics import NormalDist

# Beyond this many degrees of freedom the normal distribution differs by less than 0.5%.
_MANY = 400
Z_95 = 1.96
"""A value of the normal distribution lies within so many standard deviations of its mean with probability 0.95."""


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
    """Return the t for which |T| < t has probability `confidence`."""
    if freedom > _MANY:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, 1.0
    while t_central_probability(high, freedom) < confidence:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        if t_central_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return middle
