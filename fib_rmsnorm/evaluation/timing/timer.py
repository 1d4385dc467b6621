"""The interface of a timer, and how often it calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from fib_rmsnorm.schema import Settings

# A kernel of seconds (interpreted, say) must not take minutes to time: a trial ends after this long,
# with at least this many calls.
_TRIAL_BUDGET_S = 0.5
_FEWEST_CALLS = 3


class MeasurementError(Exception):
    """The timer could not measure what it was asked to; it never falls back in silence."""


class Timer(Protocol):
    """Times calls by one mechanism."""

    @property
    def name(self) -> str:
        """`cupti`, `cuda_events` or `cpu_clock`: recorded with every number."""
        ...

    @property
    def cold_l2(self) -> bool | None:
        """Whether L2 is evicted before each timed call; None where there is no such thing to say."""
        ...

    def measure(self, call: Callable[[], object], settings: Settings) -> list[float]:
        """Warm up and time; return the latency of each timed call in milliseconds, trial by trial.

        Raises MeasurementError if the mechanism lost what it should have recorded.
        """
        ...


def repeat(times: int) -> Iterator[int]:
    """Count to `times`, stopping early once the budget of a trial is spent."""
    started = time.perf_counter()
    for index in range(times):
        if index >= _FEWEST_CALLS and time.perf_counter() - started > _TRIAL_BUDGET_S:
            return
        yield index
