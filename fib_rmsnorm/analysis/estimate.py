"""A number with its 95% interval, and what the interval of a ratio decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["slower", "faster", "tie"]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the value.

        A latency's interval ends at ticks of a clock, and the median may lie beyond both: then it extends the interval.
        """
        return (max(self.high, self.value) - min(self.low, self.value)) / 2 / self.value

    @property
    def is_bounded(self) -> bool:
        """Whether it is known at all: a single call, or too few undisturbed ones, leave one end open."""
        return self.low > 0 and math.isfinite(self.high)

    @property
    def inverse(self) -> Estimate:
        """One over it."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low if self.low else math.inf)

    @property
    def verdict(self) -> Verdict:
        """What a new latency over an old one says: a tie where its interval holds 1."""
        if self.low > 1:
            return "slower"
        return "faster" if self.high < 1 else "tie"

    @property
    def apart(self) -> float:
        """How far the two numbers of a ratio could be apart, as a share: 0.12 is 12%."""
        return max(self.high, 1 / self.low if self.low else math.inf) - 1


def recorded(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """A recorded value with its interval; None without. JSON has no infinity, to which a single call's reaches."""
    if not value or low is None:
        return None
    return Estimate(value, low, math.inf if high is None else high)
