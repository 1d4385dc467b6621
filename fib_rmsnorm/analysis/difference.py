"""Do two latencies differ, and by how much at least and at most?

A latency is a run's: one process, one bench. Calls within a run scatter, which its interval tells, but a run as a
whole also lies a little off the others, by where its memory came to lie and how the clock settled. No interval of
one run shows that, so a comparison that ignores it calls every second A/A pair different. Here the drift from run
to run is a part of every interval: assumed where there are no repeated runs, estimated from them where there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from fib_rmsnorm.analysis.record import Record
from fib_rmsnorm.analysis.statistics import Estimate, t_quantile

CONFIDENCE = 0.95
ASSUMED_RELATIVE = 0.003
ASSUMED_MS = 20e-6
"""Standard deviation of a GPU's median from run to run: two benches on H200s started anew differed by 1.3% at 25
medians of 1.6 to 8 us and by 0.2% at 15 of 15 to 300 us, of which the calls explain 0.5% and 0.2%: it is
rather a time, about half a tick of the GPU's clock, than a proportion. One kernel of 3.2 us differed by 3.3%, so a
part of it is taken to be proportional all the same."""
ASSUMED_RELATIVE_CPU = 0.02
"""The same for a CPU, whose caches and clocks are shared with others; there is no small fixed part to see."""
ASSUMED_FREEDOM = 40
"""How many degrees of freedom that is worth beside repeated runs: few, because another machine may differ, so that
a handful of them overrules it."""

_Z_95 = 1.96
_FEWEST_TRIALS = 3
_ENOUGH_REPEATS = 20


@dataclass(frozen=True)
class Drift:
    """How much a latency moves from run to run."""

    scale: float = 1.0
    """Times what is assumed."""
    freedom: int = ASSUMED_FREEDOM
    repeats: int = 0
    """Degrees of freedom that came from repeated runs, the others being assumed."""

    def deviation(self, run: Record) -> float:
        """The standard deviation of a run's logarithm."""
        return self.scale * _assumed_deviation(run)


def _assumed_deviation(run: Record) -> float:
    if run.timer == "cpu_clock":
        return ASSUMED_RELATIVE_CPU
    return math.hypot(ASSUMED_RELATIVE, ASSUMED_MS / run.latency_ms if run.latency_ms else 0.0)


def estimate_drift(groups: Iterable[Sequence[Record]]) -> Drift:
    """Pool what repeated runs of equal evaluations show with what is assumed, each by its degrees of freedom.

    Where many show more than is assumed, they alone count.
    """
    squares, repeats = 0.0, 0
    for runs in groups:
        if len(runs) < 2:
            continue
        logs = [_log_latency(run) for run in runs]
        middle = fmean(logs)
        freedom = len(logs) - 1
        # What the calls within the runs explain is no drift.
        found = sum((value - middle) ** 2 for value in logs) - freedom * fmean(map(_variance_within, runs))
        squares += found / fmean(map(_assumed_deviation, runs)) ** 2
        repeats += freedom
    if repeats >= _ENOUGH_REPEATS and squares > repeats:
        return Drift(math.sqrt(squares / repeats), repeats, repeats)
    freedom = ASSUMED_FREEDOM + repeats
    return Drift(math.sqrt((ASSUMED_FREEDOM + max(0.0, squares)) / freedom), freedom, repeats)


def find_difference(
    old: Sequence[Record], new: Sequence[Record], drift: Drift, confidence: float = CONFIDENCE
) -> Estimate:
    """The new latency over the old, each the geometric mean of its runs, with an interval (Student's t)."""
    change = fmean(map(_log_latency, new)) - fmean(map(_log_latency, old))
    variance = sum(
        fmean(drift.deviation(run) ** 2 + _variance_within(run) for run in runs) / len(runs) for runs in (old, new)
    )
    either_side = t_quantile(confidence, drift.freedom) * math.sqrt(variance)
    return Estimate(math.exp(change), math.exp(change - either_side), math.exp(change + either_side))


def share_confidence(comparisons: int) -> float:
    """The confidence of each of several intervals with which all hold together at 95% (Sidak 1967)."""
    return float(CONFIDENCE ** (1 / max(1, comparisons)))


def _log_latency(run: Record) -> float:
    if not run.latency_ms:
        raise ValueError(f"{run.name} has no latency")
    return math.log(run.latency_ms)


def _variance_within(run: Record) -> float:
    """The variance of a run's log median by the calls or by the trials, whichever says more."""
    by_calls = by_trials = 0.0
    if run.latency_low_ms and run.latency_high_ms:
        by_calls = math.log(run.latency_high_ms / run.latency_low_ms) / 2 / _Z_95
    medians = [value for value in run.trial_medians_ms or [] if value > 0]
    if len(medians) >= _FEWEST_TRIALS:
        by_trials = stdev(map(math.log, medians)) / math.sqrt(len(medians))
    return max(by_calls, by_trials) ** 2
