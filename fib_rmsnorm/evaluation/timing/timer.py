"""The interface of a timer, and how often it calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from fib_rmsnorm.schema import KernelLaunch

Call = Callable[[], object]
Prepare = Callable[[int], Call]
"""Sets the stage for call `i`, untimed, and returns what is to be timed."""
After = Callable[[], int]
"""Follows each call at once, untimed; returns how many pieces of device work it has launched."""

# However slow a call is, a trial has at least this many.
_FEWEST_CALLS = 1


MAX_ATTEMPTS = 3
"""At a trial whose measurement fails: records that were dropped once need not be again."""
MOST_LAUNCHES = 32
"""Of a call that are told; `Sample.pieces` counts all."""


class MeasurementError(Exception):
    """The timer could not measure what it was asked to; it never falls back in silence."""

    def __init__(self, message: str, calls: int = 0) -> None:
        super().__init__(message)
        self.calls = calls
        """How many had been timed."""


class Sample(NamedTuple):
    """One timed call; a tuple, because the calls that follow could change anything else."""

    span_ms: float
    """From the start of its first piece of work to the end of its last."""
    busy_ms: float
    """The sum of its pieces of work: less than the span where it waits, more where pieces overlap."""
    pieces: int = 1
    """Kernels, copies and fills that it ran."""
    launches: tuple[KernelLaunch, ...] | None = None
    """Its first kernels; None for all calls but a trial's last, and where the timer has no records of them."""


class Timer(Protocol):
    """Times calls by one mechanism."""

    @property
    def name(self) -> str:
        """`cupti`, `cuda_events` or `cpu_clock`: recorded with every number."""
        ...

    @property
    def tick_ms(self) -> float:
        """What its clock rounds to; 0 if that is far below anything timed."""
        ...

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time up to `calls` calls, fewer if the budget is spent before.

        `cold` evicts the GPU's L2 cache before each; a CPU timer ignores it. Raises MeasurementError if the
        mechanism lost what it should have recorded.
        """
        ...

    def rest(self) -> None:
        """Be in nobody's way until the next measurement: what is not timed by it must cost what it always does."""
        ...


def repeat(times: int, budget_s: float) -> Iterator[int]:
    """Count to `times`, stopping early once the budget is spent."""
    started = time.perf_counter()
    for index in range(times):
        if index >= _FEWEST_CALLS and time.perf_counter() - started > budget_s:
            return
        yield index
