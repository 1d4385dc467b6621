"""CPU time by the monotonic clock, around each call."""

from __future__ import annotations

from time import perf_counter_ns as clock

from fib_rmsnorm.evaluation.timing.timer import Prepare, Sample, repeat


class CpuClock:
    """Wall-clock time of synchronous calls; caches are as warm as the calls before left them."""

    name = "cpu_clock"
    tick_ms = 0.0

    def measure(self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float) -> list[Sample]:
        """Time each call by itself; `cold` means nothing here."""
        samples = []
        for index in repeat(calls, budget_s):
            call = prepare(index)
            started = clock()
            call()
            elapsed_ms = (clock() - started) / 1e6
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples
