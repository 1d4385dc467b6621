"""The interface of a timer."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field, FiniteFloat

Call = Callable[[], object]
Prepare = Callable[[int], Call]
"""Prepares call `i`, untimed, and returns the call to time."""
After = Callable[[], int]
"""Runs right after each call, untimed, and returns how many pieces of device work it has launched."""

Latency = Annotated[FiniteFloat, Field(ge=0)]

MAX_ATTEMPTS = 3
"""A trial whose measurement fails is attempted this often: dropped records need not be dropped again."""


class MeasurementError(Exception):
    """The timer could not measure. It never falls back to another mechanism without saying so."""

    def __init__(self, message: str, calls: int = 0) -> None:
        super().__init__(message)
        self.calls = calls
        """The number of calls that had been timed."""


class Sample(NamedTuple):
    """One timed call. A tuple, because later calls could change anything else."""

    span_ms: Latency
    """The time from the start of the first piece of work to the end of the last."""
    busy_ms: Latency
    """The sum of the times of all pieces of work: less than the span if the call waits, more if pieces overlap."""
    pieces: int = 1
    """The number of kernels, copies and fills that the call ran."""
    is_disturbed: bool = False
    """Whether a thread of the call had to wait for a core, on a CPU: something else ran there."""


class Trial(NamedTuple):
    """Calls to time in a row, as a tuple, which no call can change. A CPU has no use for `cold` and `queued`."""

    calls: int
    cold: bool
    """Whether the GPU's L2 cache is evicted before each call."""
    budget_s: float
    """Fewer calls are timed if this is spent first."""
    queued: bool = True
    """Whether the GPU is held until the host has issued a call, so that its kernels never wait for the host."""


class Timer:
    """Times calls with one mechanism."""

    name: ClassVar[str]
    """`cupti`, `cuda_events`, `hip_events` or `cpu_clock`. It is recorded with every latency."""
    tick_ms: ClassVar[float] = 0.0
    """The resolution of its clock; 0 if that is far below any latency."""

    def measure(self, prepare: Prepare, trial: Trial, after: After = lambda: 0) -> list[Sample]:
        """Time the calls of a trial.

        Raises MeasurementError if the mechanism lost records, and LateReleaseError if a queued call waited for the
        device.
        """
        raise NotImplementedError

    def attach(self) -> None:
        """Do what the first measurement would wait for. Most timers wait for nothing. Raises MeasurementError."""

    def rest(self) -> None:
        """Stop slowing the process down until the next measurement. Most timers never do."""


def repeat(times: int, budget_s: float) -> Iterator[int]:
    """Count to `times`, stopping early once the budget is spent, but not before the first."""
    started = time.perf_counter()
    for index in range(times):
        if index and time.perf_counter() - started > budget_s:
            return
        yield index
