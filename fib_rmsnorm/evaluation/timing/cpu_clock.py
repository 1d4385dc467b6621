"""Time calls on a CPU with the monotonic clock."""

from __future__ import annotations

from collections.abc import Iterator
from sys import getprofile, gettrace
from time import perf_counter_ns as clock

from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat


class CpuClock:
    """Wall-clock time of synchronous calls. Caches are as the previous calls left them."""

    name = "cpu_clock"
    tick_ms = 0.0

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
        """Time each call by itself; `cold` and `queued` have no effect."""
        # Not a list, in which a call could change the samples of earlier ones.
        samples = tuple(_time_each(prepare, repeat(calls, budget_s), after))
        return list(samples)

    def rest(self) -> None:
        """Do nothing: this timer slows nothing down."""


def _time_each(prepare: Prepare, indices: Iterator[int], after: After) -> Iterator[Sample]:
    # Bound to locals: a call that replaced these names would affect only the next trial, and be found before it.
    now, profiled, traced = clock, getprofile, gettrace
    for index in indices:
        call = prepare(index)
        # One expression, because a call can change our variables. The clock is read again only after the return value
        # is dropped, which may compute something, and after we have looked for hooks, which could run later.
        started, _, hook, ended = now(), call() is None, profiled() or traced(), now()
        if hook:
            raise MeasurementError("a timed call left a hook that runs code where no clock does")
        after()
        del call  # after the outputs were sampled, but before the next call is prepared: code may run when it ends
        elapsed_ms = (ended - started) / 1e6
        yield Sample(elapsed_ms, elapsed_ms)
