"""The interface of a timer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from fib_rmsnorm.schema import KernelLaunch

Call = Callable[[], object]
Prepare = Callable[[int], Call]
"""Prepares call `i`, untimed, and returns the call to time."""
After = Callable[[], int]
"""Runs right after each call, untimed, and returns how many pieces of device work it has launched."""

MAX_ATTEMPTS = 3
"""A trial whose measurement fails is attempted this often: dropped records need not be dropped again."""
MAX_LAUNCHES = 32
"""The most launches of a call that are recorded; `Sample.pieces` counts all of them."""


class MeasurementError(Exception):
    """The timer could not measure. It never falls back to another mechanism without saying so."""

    def __init__(self, message: str, calls: int = 0) -> None:
        super().__init__(message)
        self.calls = calls
        """The number of calls that had been timed."""


class Sample(NamedTuple):
    """One timed call. A tuple, because later calls could change anything else."""

    span_ms: float
    """The time from the start of the first piece of work to the end of the last."""
    busy_ms: float
    """The sum of the times of all pieces of work: less than the span if the call waits, more if pieces overlap."""
    pieces: int = 1
    """The number of kernels, copies and fills that the call ran."""
    launches: tuple[KernelLaunch, ...] | None = None
    """The call's first kernels; None for all but the last call of a trial, and if the timer does not record kernels."""
    is_disturbed: bool = False
    """Whether a thread of the call had to wait for a core, on a CPU: something else ran there."""


class Timer:
    """Times calls with one mechanism."""

    name: ClassVar[str]
    """`cupti`, `cuda_events` or `cpu_clock`. It is recorded with every latency."""
    tick_ms: ClassVar[float] = 0.0
    """The resolution of its clock; 0 if that is far below any latency."""

    def measure(
        self,
        prepare: Prepare,
        calls: int,
        *,
        cold: bool,
        budget_s: float,
        after: After = lambda: 0,
        queued: bool = True,
    ) -> list[Sample]:
        """Time up to `calls` calls, fewer if the budget is spent first.

        `cold` evicts the GPU's L2 cache before each call. `queued` holds the GPU until the host has issued the call, so
        that its kernels never wait for the host. A CPU timer ignores both. Raises MeasurementError if the mechanism
        lost records, and LateReleaseError if a queued call waited for the device.
        """
        raise NotImplementedError

    def rest(self) -> None:
        """Stop slowing the process down until the next measurement. Most timers never do."""


def repeat(times: int, budget_s: float) -> Iterator[int]:
    """Count to `times`, stopping early once the budget is spent, but not before the first."""
    started = time.perf_counter()
    for index in range(times):
        if index and time.perf_counter() - started > budget_s:
            return
        yield index
