"""A number with its 95% interval, and what the interval of a ratio decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

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


class Measured(Protocol):
    """The recorded fields of a latency and its reference's: a TraceRecord or the schema's Performance."""

    @property
    def latency_ms(self) -> float | None: ...  # noqa: D102
    @property
    def latency_low_ms(self) -> float | None: ...  # noqa: D102
    @property
    def latency_high_ms(self) -> float | None: ...  # noqa: D102
    @property
    def reference_latency_ms(self) -> float | None: ...  # noqa: D102
    @property
    def reference_low_ms(self) -> float | None: ...  # noqa: D102
    @property
    def reference_high_ms(self) -> float | None: ...  # noqa: D102
    @property
    def trial_scatter(self) -> float | None: ...  # noqa: D102
    @property
    def reference_trial_scatter(self) -> float | None: ...  # noqa: D102
    @property
    def pieces(self) -> int | None: ...  # noqa: D102
    @property
    def reference_pieces(self) -> int | None: ...  # noqa: D102
    @property
    def timer(self) -> str | None: ...  # noqa: D102
    @property
    def device_session(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True)
class RunLatency:
    """The latency of one evaluation in milliseconds, and what tells how far it may drift."""

    ms: float
    interval_ms: Estimate | None
    """None if none was recorded, as by flashinfer-bench."""
    timer: str | None
    device_session: str | None
    trial_scatter: float = 0.0
    """How far its trials lie from each other, as a relative standard deviation; 0 where that was not recorded."""
    pieces: int = 1
    """The number of kernels, copies and fills of a call."""

    @staticmethod
    def of(measured: Measured) -> RunLatency | None:
        """A Solution's; None if it was not timed."""
        interval = recorded(measured.latency_ms, measured.latency_low_ms, measured.latency_high_ms)
        return _run(measured, measured.latency_ms, interval, measured.trial_scatter, measured.pieces)

    @staticmethod
    def of_reference(measured: Measured) -> RunLatency | None:
        """The reference's, in the same run."""
        interval = recorded(measured.reference_latency_ms, measured.reference_low_ms, measured.reference_high_ms)
        scatter, pieces = measured.reference_trial_scatter, measured.reference_pieces
        return _run(measured, measured.reference_latency_ms, interval, scatter, pieces)


def _run(
    measured: Measured, ms: float | None, interval: Estimate | None, trial_scatter: float | None, pieces: int | None
) -> RunLatency | None:
    if not ms:
        return None
    return RunLatency(ms, interval, measured.timer, measured.device_session, trial_scatter or 0.0, pieces or 1)


def recorded(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """A recorded value with its interval; None without. JSON has no infinity, to which a single call's reaches."""
    if not value or low is None:
        return None
    return Estimate(value, low, math.inf if high is None else high)
