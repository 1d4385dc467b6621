"""Do two latencies differ, and by how much at least and at most?

A latency is a run's: one process, one bench. Calls and trials within it scatter, which its interval tells, but a run
as a whole also lies a little off the others, and so does a session: one device, from one start of its machine to the
next. No interval of one run shows either, so a comparison that ignores them calls every second A/A pair different.
Here both are parts of every interval. What runs add is estimated where a side has several, and assumed otherwise;
what sessions add is assumed, and no part of a difference between runs of one session.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.student_t import Estimate, t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Assumed:
    """The standard deviation of a median: a proportion of it, and a time, as GPU clocks have ticks."""

    relative: float
    fixed_ms: float

    def deviation(self, run: TraceRecord) -> float:
        """The standard deviation of the logarithm of a run's median."""
        return math.hypot(self.relative, self.fixed_ms / run.latency_ms if run.latency_ms else 0.0)


BETWEEN_RUNS = Assumed(0.0022, 12e-6)
"""The deviation between runs of a GPU within a session. Three consecutive benches on each of four H200s
(docs/data/h200-runs.json) scatter by 0.47 to 0.65% at the 12 kernels of 1.4 to 1.9 us (24 degrees of freedom each),
0.28 to 0.64% at the 3 of 3.1 us (6), and 0.16 to 0.30% at the 9 of 15 to 251 us (18): 0.54%, 0.47% and 0.23% together.
The calls explain 0.26%, 0.12% and 0.10% of that, which leaves 0.47%, 0.45% and 0.21%, rounded up."""
BETWEEN_SESSIONS = Assumed(0.003, 18e-6)
"""What a session adds on a GPU. Equal kernels benched on H200s started anew differed (root mean square) by 1.23% at 19
medians of 1.6 to 2.2 us, 1.22% at 10 of 2.8 to 7.8 us and 0.26% at 18 of 15 to 300 us in one pair of sessions; in
another, against means of three benches, by 1.45% at 8, 0.39% at 2 and 0.58% at 6. Without what runs add that is 0.8%,
0.5% and 0.2% a session. Rounded up: two pairs of sessions are few, and in the second all 8 moved the same way."""
CPU_BETWEEN_RUNS = Assumed(0.02, 0.0)
CPU_BETWEEN_SESSIONS = Assumed(0.02, 0.0)
"""The same for a CPU, whose caches and clocks are shared with others: a guess, to be overruled by repeated runs."""
ASSUMED_FREEDOM = 40
"""How many degrees of freedom that is worth beside repeated runs: half as many as it was estimated from, so that
a handful of them overrules it."""

_Z_95 = 1.96
_ENOUGH_REPEATS = 20


@dataclass(frozen=True)
class Drift:
    """How much a latency moves from run to run of a session."""

    scale: float = 1.0
    """A factor on the assumed deviations."""
    freedom: int = ASSUMED_FREEDOM
    repeats: int = 0
    """Degrees of freedom from repeated runs; the others are assumed."""

    def deviation(self, run: TraceRecord) -> float:
        """The standard deviation of a run's logarithm."""
        return self.scale * _between_runs(run)


def session_deviation(run: TraceRecord) -> float:
    """What another session adds to the standard deviation of a run's logarithm."""
    return (CPU_BETWEEN_SESSIONS if run.timer == "cpu_clock" else BETWEEN_SESSIONS).deviation(run)


def _between_runs(run: TraceRecord) -> float:
    return (CPU_BETWEEN_RUNS if run.timer == "cpu_clock" else BETWEEN_RUNS).deviation(run)


def estimate_drift(groups: Iterable[Sequence[TraceRecord]]) -> Drift:
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
        # Scatter that the intervals of the runs explain is not drift.
        found = sum((value - middle) ** 2 for value in logs) - freedom * fmean(map(_variance_within, runs))
        squares += found / fmean(map(_between_runs, runs)) ** 2
        repeats += freedom
    if repeats >= _ENOUGH_REPEATS and squares > repeats:
        return Drift(math.sqrt(squares / repeats), repeats, repeats)
    freedom = ASSUMED_FREEDOM + repeats
    return Drift(math.sqrt((ASSUMED_FREEDOM + max(0.0, squares)) / freedom), freedom, repeats)


def find_difference(
    old: Sequence[TraceRecord], new: Sequence[TraceRecord], drift: Drift, confidence: float = CONFIDENCE
) -> Estimate:
    """The new latency over the old, each the geometric mean of its runs, with an interval (Student's t)."""
    change = fmean(map(_log_latency, new)) - fmean(map(_log_latency, old))
    parts = [_Part(imbalance(old, new) * fmean(session_deviation(run) ** 2 for run in (*old, *new)), ASSUMED_FREEDOM)]
    for runs in (old, new):
        within = sum(_variance_within(run) + drift.deviation(run) ** 2 for run in runs)
        parts.append(_Part(within / len(runs) ** 2, drift.freedom))
    either_side = t_quantile(confidence, _freedom(parts)) * math.sqrt(sum(part.variance for part in parts))
    return Estimate(math.exp(change), math.exp(change - either_side), math.exp(change + either_side))


@dataclass(frozen=True)
class _Part:
    """A part of a difference's variance, and the degrees of freedom that it was estimated from."""

    variance: float
    freedom: int


def _freedom(parts: Iterable[_Part]) -> int:
    """The degrees of freedom of the sum (Satterthwaite 1946): few if trials, which are few, disagree."""
    some = [part for part in parts if part.variance > 0]
    total = sum(part.variance for part in some)
    return max(1, int(total**2 / sum(part.variance**2 / part.freedom for part in some))) if some else 1


def imbalance(old: Sequence[TraceRecord], new: Sequence[TraceRecord]) -> float:
    """How much of the variance between sessions is in a difference: 0 in one session, 2 between one and another.

    Each session counts by the square of how much more of it there is on one side. Runs that do not tell their
    session are taken to be of one a side, and of another than those of the other side.
    """
    before, after = (_shares(runs, side) for side, runs in (("old", old), ("new", new)))
    return sum((before.get(key, 0.0) - after.get(key, 0.0)) ** 2 for key in {**before, **after})


def _shares(runs: Sequence[TraceRecord], side: str) -> Mapping[str, float]:
    sessions = Counter(run.device_session or side for run in runs)
    return {session: number / len(runs) for session, number in sessions.items()}


def share_confidence(comparisons: int) -> float:
    """The confidence of each of several intervals with which all hold together at 95% (Sidak 1967)."""
    return float(CONFIDENCE ** (1 / max(1, comparisons)))


def _log_latency(run: TraceRecord) -> float:
    if not run.latency_ms:
        raise ValueError(f"{run.solution} at {run.axes_text} has no latency")
    return math.log(run.latency_ms)


def _variance_within(run: TraceRecord) -> float:
    """The variance of a run's log median by its own interval: how its calls scatter, and its trials."""
    if run.interval_ms is None:
        return 0.0
    low, high = run.interval_ms
    # An interval down to 0 has no lower end on this scale, so its upper half counts for both.
    half = math.log(high / low) / 2 if low else math.log(max(high / (run.latency_ms or high), 1.0))
    return (half / _Z_95) ** 2
