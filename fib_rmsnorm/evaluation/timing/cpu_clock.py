"""CPU time by the monotonic clock, around each call."""

from __future__ import annotations

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
        samples = []
        # A call that replaced our names of these would reach only the next trial, and be found before.
        now, profiled, traced = clock, getprofile, gettrace
        for index in repeat(calls, budget_s):
            call = prepare(index)
            started = now()
            call()
            hook = profiled() or traced()  # asked before the clock: it would run after it
            elapsed_ms = (now() - started) / 1e6
            if hook:
                raise MeasurementError("a timed call left a hook that runs code where no clock does")
            del call  # now rather than when the next call is prepared: somebody may wait for its end
            after()
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples

    def rest(self) -> None:
        """Nothing of it is in anyone's way."""
