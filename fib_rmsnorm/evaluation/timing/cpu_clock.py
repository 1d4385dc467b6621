"""CPU time by the monotonic clock, around each call."""

from __future__ import annotations

from collections.abc import Iterator
from sys import getprofile, gettrace
from time import perf_counter_ns as clock

from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat


class CpuClock:
    """Wall-clock time of synchronous calls; caches are as warm as the calls before left them."""

    name = "cpu_clock"
    tick_ms = 0.0

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself; `cold` means nothing here."""
        # Not a list, in which a call could change the samples of earlier ones.
        samples = tuple(_time_each(prepare, repeat(calls, budget_s), after))
        return list(samples)

    def rest(self) -> None:
        """Nothing of it is in anyone's way."""


def _time_each(prepare: Prepare, indices: Iterator[int], after: After) -> Iterator[Sample]:
    # A call that replaced our names of these would reach only the next trial, and be found before.
    now, profiled, traced = clock, getprofile, gettrace
    for index in indices:
        call = prepare(index)
        # In one expression, because a call can write to our variables. What it returns is dropped before the clock is
        # read again (it could compute something then), and so is a hook looked for, which would run after that.
        started, _, hook, ended = now(), call() is None, profiled() or traced(), now()
        if hook:
            raise MeasurementError("a timed call left a hook that runs code where no clock does")
        after()
        del call  # not before we have looked, nor when the next call is prepared: somebody may wait for its end
        elapsed_ms = (ended - started) / 1e6
        yield Sample(elapsed_ms, elapsed_ms)
