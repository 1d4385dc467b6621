"""CPU time by the monotonic clock, around each call."""

from __future__ import annotations

import time
from collections.abc import Callable

from fib_rmsnorm.evaluation.timing.timer import repeat
from fib_rmsnorm.schema import Settings


class CpuClock:
    """Wall-clock time of synchronous calls; caches are as warm as the calls before left them."""

    name = "cpu_clock"
    cold_l2 = None

    def measure(self, call: Callable[[], object], settings: Settings) -> list[float]:
        """Time each call by itself."""
        clock = time.perf_counter_ns
        for _ in repeat(settings.warmup_runs):
            call()
        samples = []
        for _ in range(settings.num_trials):
            for _ in repeat(settings.iterations):
                started = clock()
                call()
                samples.append((clock() - started) / 1e6)
        return samples
