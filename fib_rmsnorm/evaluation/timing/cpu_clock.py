"""CPU time by the monotonic clock, around each call."""

from __future__ import annotations

from time import perf_counter_ns as clock

from fib_rmsnorm.evaluation.timing.timer import After, Prepare, Sample, repeat


class CpuClock:
    """Wall-clock time of synchronous calls; caches are as warm as the calls before left them."""

    name = "cpu_clock"
    tick_ms = 0.0

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself; `cold` means nothing here."""
        samples = []
        now = clock  # a call that replaced our name of it would reach only the next trial, and be found before
        for index in repeat(calls, budget_s):
            call = prepare(index)
            started = now()
            call()
            elapsed_ms = (now() - started) / 1e6
            after()
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples
