"""How far the calls and the trials of a measurement lie apart, and when that is too far to trust its median."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from fib_rmsnorm.evaluation.timing.latency_statistics import (
    Interval,
    a_a_difference,
    grouped_median,
    latency_interval,
)
from fib_rmsnorm.machine.load import CpuLoad


@dataclass(frozen=True)
class Limits:
    """What is still trusted."""

    half_width: float
    """Half the 95% interval, over the median."""
    spread: float
    """The 95th percentile of the calls over the 5th."""
    a_a_difference: float
    ticks_ms: float = 0.0
    """An interval this wide on either side is trusted however short the call."""
    other_share: float = math.inf
    """The share of the cores' time that other processes took. Such a load slows every call, so no interval shows it."""


# Of 470 results of the tool's kernels on H200s the widest interval is ±3.4%, and the largest spread 1.33.
# The copies of 43 Workloads there have up to ±4.6%, at 1.28 us: two ticks of the clock.
_GPU = Limits(half_width=0.05, spread=2.0, a_a_difference=0.03, ticks_ms=96e-6)
# A CPU's median drifts by 2% from run to run, as comparisons assume, so two halves may differ by 5.5% by chance.
_CPU = Limits(half_width=0.05, spread=3.0, a_a_difference=0.06, other_share=0.25)
# A smaller share of the cores is not named as a cause.
_LEAST_CAUSE = 0.02


@dataclass(frozen=True)
class Scatter:
    """A median with all that says how sure it is."""

    latency_ms: float
    interval: Interval
    p5_ms: float
    p95_ms: float
    a_a_difference: float | None

    def find_doubts(self, timer: str, load: CpuLoad) -> list[str]:
        """The reasons not to trust the median, the first with its cause if that is known."""
        limits = _CPU if timer == "cpu_clock" else _GPU
        doubts = list(self._compare_with(limits))
        busy = load.other_share or 0.0
        cause = ""
        if busy >= (_LEAST_CAUSE if doubts else limits.other_share):
            cause = f"other processes took {busy:.0%} of the cores"
        elif load.involuntary_switches:
            cause = f"other processes took a core away {load.involuntary_switches} times"
        if doubts and cause:
            doubts[0] += f": {cause}"
        return doubts or [cause] * (busy >= limits.other_share)

    def _compare_with(self, limits: Limits) -> Iterator[str]:
        half_width = self.interval.relative_to(self.latency_ms)
        if math.isinf(half_width):
            yield "a single call has no interval"
        elif half_width * self.latency_ms > max(limits.half_width * self.latency_ms, limits.ticks_ms):
            yield f"95% interval ±{in_words(half_width)}"
        if self.p95_ms > limits.spread * self.p5_ms:
            times = f"{self.p95_ms / self.p5_ms:.3g}x" if self.p5_ms else "many times"
            yield f"slow calls (95th percentile) take {times} as long as fast ones (5th)"
        if self.a_a_difference is not None and self.a_a_difference > limits.a_a_difference:
            yield f"earlier and later trials {in_words(self.a_a_difference)} apart"


def measure_scatter(trials: Sequence[Sequence[float]], tick: float) -> Scatter:
    """Sum up the calls of trials."""
    samples = [sample for trial in trials for sample in trial]
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    return Scatter(grouped_median(samples, tick), latency_interval(trials, tick), p5, p95, a_a_difference(trials, tick))


def in_words(share: float) -> str:
    """`3.1%`, `24%`, `540x`: a share of 1 or more is a factor."""
    if share >= 1:
        return f"{share:.2f}x" if share < 9.995 else f"{share:.0f}x"
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
