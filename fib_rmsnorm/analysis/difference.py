"""A latency with its interval. Do two differ, and by how much at least and at most?

A latency is a run's: one process, one bench. Calls and trials within it scatter, which its interval tells, but a run
as a whole also lies a little off the others, and so does a session: one device, from one start of its machine to the
next. No interval of one run shows either, so a comparison that ignores them calls every second A/A pair different.
Here both are parts of every interval. What runs add is estimated where a side has several, and assumed otherwise;
what sessions add is assumed, and no part of a difference between runs of one session. Rounds that were measured in turn
are compared as pairs: what the machine does to both sides of a round cancels out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from fib_rmsnorm.analysis.trace_record import TraceRecord, is_of_cpu
from fib_rmsnorm.schema import Performance
from fib_rmsnorm.student_t import Z_95, t_quantile

CONFIDENCE = 0.95
Verdict = Literal["slower", "faster", "tie"]
End = Literal["low", "high"]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the value.

        A latency's interval ends at ticks of a clock, and the median may lie beyond both: then it extends the interval.
        """
        return (max(self.high, self.value) - min(self.low, self.value)) / 2 / self.value

    @property
    def is_bounded(self) -> bool:
        """Whether it is known at all: a single call, or too few undisturbed ones, leave one end open."""
        return self.low > 0 and math.isfinite(self.high)

    @property
    def verdict(self) -> Verdict:
        """The verdict on a new latency over an old one: a tie where its interval holds 1."""
        if self.low > 1:
            return "slower"
        return "faster" if self.high < 1 else "tie"

    @property
    def apart(self) -> float:
        """How far the two numbers of a ratio could be apart, as a share: 0.12 is 12%."""
        return max(self.high, 1 / self.low if self.low else math.inf) - 1


def recorded(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """A recorded value with its interval; None without. JSON has no infinity, to which a single call's reaches."""
    if not value or low is None:
        return None
    return Estimate(value, low, math.inf if high is None else high)


def find_interval(record: TraceRecord) -> Estimate | None:
    """A median with its 95% interval, by calls and by trials; None without one, as of a single call."""
    high_ms = record.latency_high_ms
    return recorded(record.latency_ms, record.latency_low_ms, high_ms) if high_ms else None


class RunLatency(NamedTuple):
    """The latency of one evaluation in milliseconds, and what tells how far it may drift."""

    ms: float
    interval_ms: Estimate | None
    """None if none was recorded, as by flashinfer-bench."""
    timer: str | None
    device_session: str | None
    trial_scatter: float = 0.0
    """How far its trials lie from each other, as a relative standard deviation; 0 where that was not recorded."""
    pieces: int = 1
    """The number of kernels, copies and fills of a call."""

    @staticmethod
    def of(measured: TraceRecord | Performance | None) -> "RunLatency | None":
        """A Solution's; None if it was not timed."""
        if measured is None or not (ms := measured.latency_ms):
            return None
        interval = recorded(ms, measured.latency_low_ms, measured.latency_high_ms)
        scatter, pieces = measured.trial_scatter or 0.0, measured.pieces or 1
        return RunLatency(ms, interval, measured.timer, measured.device_session, scatter, pieces)

    @staticmethod
    def of_reference(measured: TraceRecord | Performance) -> "RunLatency | None":
        """The reference's, in the same run."""
        if not (ms := measured.reference_latency_ms):
            return None
        interval = recorded(ms, measured.reference_low_ms, measured.reference_high_ms)
        scatter, pieces = measured.reference_trial_scatter or 0.0, measured.reference_pieces or 1
        return RunLatency(ms, interval, measured.timer, measured.device_session, scatter, pieces)


@dataclass(frozen=True)
class Assumed:
    """The standard deviation of a median: a proportion of it, and a time, as GPU clocks have ticks.

    Also a time for each gap between the kernels of a call, and a share of what the run's trials scatter by.
    """

    relative: float
    fixed_ms: float
    gap_ms: float
    of_trial_scatter: float
    freedom: int
    """How many degrees of freedom that is worth beside repeated runs."""
    overruled_at: float
    """Repeated runs whose variance is more than so many times the assumed one also count alone."""

    def deviation(self, run: RunLatency) -> float:
        """The standard deviation of the logarithm of a run's median."""
        fixed_ms = math.hypot(self.fixed_ms, self.gap_ms * (run.pieces - 1))
        return math.hypot(self.relative, fixed_ms / run.ms, self.of_trial_scatter * run.trial_scatter)


BETWEEN_RUNS = Assumed(0.0022, 12e-6, 80e-6, 0.0, 40, 3)
"""The deviation between runs of a GPU within a session. Three consecutive benches on each of four H200s
(docs/data/h200-runs.json) scatter by 0.47 to 0.65% at the 12 kernels of 1.4 to 1.9 us (24 degrees of freedom each),
0.28 to 0.64% at the 3 of 3.1 us (6), and 0.16 to 0.30% at the 9 of 15 to 251 us (18): 0.54%, 0.47% and 0.23% together.
The calls explain 0.26%, 0.12% and 0.10% of that, which leaves 0.47%, 0.45% and 0.21%, rounded up. It is worth half as
many degrees of freedom as it was estimated from. How long the gaps between the kernels of a call are differs from
process to process: eight benches of a reference of eight kernels on an H100 scattered by 0.59 to 0.67 us at medians of
26 to 295 us, where a single kernel of 1.6 us scattered by 0.01 us."""
BETWEEN_SESSIONS = Assumed(0.003, 18e-6, 0.0, 0.0, 40, 3)
"""The spread between sessions on a GPU. Equal kernels benched on H200s started anew differed (RMS) by 1.23% at 19
medians of 1.6 to 2.2 us, 1.22% at 10 of 2.8 to 7.8 us and 0.26% at 18 of 15 to 300 us in one pair of sessions; in
another, against means of three benches, by 1.45% at 8, 0.39% at 2 and 0.58% at 6. Without what runs add that is 0.8%,
0.5% and 0.2% a session. Rounded up: two pairs of sessions are few, and in the second all 8 moved the same way."""
CPU_BETWEEN_RUNS = Assumed(0.02, 0.0, 0.0, 0.7, 8, 1)
CPU_BETWEEN_SESSIONS = Assumed(0.02, 0.0, 0.0, 0.0, 8, 1)
"""The same for a CPU, whose caches and clocks are shared with others: few repeated runs overrule it. What moves a
machine from trial to trial moves it from run to run: seven benches on two cores of a virtual machine with idle cores
beside them scattered by 9 to 27% at 12 pairs of kernel and batch, which is 0.59 to 1.19 times what the trials in them
scattered by. With 0.7 of it, the intervals of 504 A/A pairs, by the longer side of each, held 1 in 94 of 100 cases,
without it in 64."""


class _Part(NamedTuple):
    """A part of a difference's variance, and the degrees of freedom that it was estimated from."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class Drift:
    """How much latencies move from run to run of a session, as repeated runs show it."""

    squares: float = 0.0
    """The squared deviations of repeated runs from their means, relative to the assumed variance of each, without what
    the intervals of the runs explain."""
    repeats: int = 0
    """The degrees of freedom of these."""
    may_rule: bool = True
    """Whether repeated runs that show more than is assumed also count alone."""

    def overrules(self, run: RunLatency) -> bool:
        """Whether repeated runs show so much more than is assumed of a run that they also count alone."""
        return self.may_rule and self.squares > between_runs(run).overruled_at * self.repeats

    def variance(self, run: RunLatency, *, alone: bool) -> _Part:
        """The variance of a run's logarithm: pooled with what is assumed, or by repeated runs `alone` if they overrule.

        The wider interval counts.
        """
        assumed = between_runs(run)
        square, freedom = assumed.deviation(run) ** 2, assumed.freedom + self.repeats
        if alone and self.overrules(run):
            return _Part(square * self.squares / self.repeats, self.repeats)
        return _Part(square * (assumed.freedom + max(0.0, self.squares)) / freedom, freedom)

    def deviation(self, run: RunLatency) -> float:
        """The standard deviation of a run's logarithm."""
        return math.sqrt(max(self.variance(run, alone=alone).variance for alone in (False, True)))


def session_deviation(run: RunLatency) -> float:
    """The standard deviation that another session adds to a run's logarithm."""
    return _between_sessions(run).deviation(run)


def _between_sessions(run: RunLatency) -> Assumed:
    return CPU_BETWEEN_SESSIONS if is_of_cpu(run.timer) else BETWEEN_SESSIONS


def between_runs(run: RunLatency) -> Assumed:
    """The spread between runs on its kind of device."""
    return CPU_BETWEEN_RUNS if is_of_cpu(run.timer) else BETWEEN_RUNS


def find_difference(
    old: Sequence[RunLatency], new: Sequence[RunLatency], drift: Drift | None = None, confidence: float = CONFIDENCE
) -> Estimate:
    """The new latency over the old, each the geometric mean of its runs, with an interval (Student's t).

    Each end comes from the ends of both sides' own intervals that face each other there: the low end from the new
    one's low and the old one's high (MOVER: Zou and Donner 2008, "Construction of confidence limits about effect
    measures: a general approach", Statistics in Medicine 27). So one slow trial of the faster side, whose low end it
    takes to 0, makes no tie.
    Its `verdict` decides everywhere: who wins, which kernel is slower, whether a gate fails.
    """
    drift = drift or Drift()
    change = fmean([math.log(run.ms) for run in new]) - fmean([math.log(run.ms) for run in old])
    between = imbalance(old, new)
    deviation = fmean([session_deviation(run) ** 2 for run in (*old, *new)]) if between else 0.0
    session = _Part(between * deviation, _between_sessions(new[0]).freedom)
    widths = []
    for alone in {False, any(map(drift.overrules, (*old, *new)))}:
        before, after = ([drift.variance(run, alone=alone) for run in runs] for runs in (old, new))
        below = [session, _part(old, "high", before), _part(new, "low", after)]
        above = [session, _part(old, "low", before), _part(new, "high", after)]
        widths.append((_one_side(below, confidence), _one_side(above, confidence)))
    widest_below, widest_above = map(max, zip(*widths, strict=True))
    return Estimate(math.exp(change), _exp(change - widest_below), _exp(change + widest_above))


def find_speedup(measured: TraceRecord | Performance) -> Estimate | None:
    """The reference's latency over the Solution's, of one run; None if either was not timed, or has no bound."""
    own, reference = RunLatency.of(measured), RunLatency.of_reference(measured)
    found = find_difference([own], [reference]) if own and reference else None
    return found if found and found.is_bounded else None


def relate(own: TraceRecord | Performance | None, other: TraceRecord | Performance | None) -> Estimate | None:
    """How many times as fast `own` is: the other latency over it; None if either was not timed."""
    mine, theirs = RunLatency.of(own), RunLatency.of(other)
    return find_difference([mine], [theirs]) if mine and theirs else None


def _exp(power: float) -> float:
    return math.exp(power) if power < 700 else math.inf


def _part(runs: Sequence[RunLatency], end: End, drifts: Sequence[_Part]) -> _Part:
    """The part of one side, by the ends of its runs' intervals that face the other side, and by how they drift."""
    variance = sum([_variance_to(end, run) + each.variance for run, each in zip(runs, drifts, strict=True)])
    return _Part(variance / len(runs) ** 2, min([each.freedom for each in drifts]))


def _one_side(parts: Sequence[_Part], confidence: float) -> float:
    """From the estimate to an end of its interval. Few trials that disagree are few degrees of freedom.

    (Satterthwaite 1946.)
    """
    some = [part for part in parts if part.variance > 0]
    total = sum(part.variance for part in some)
    if math.isinf(total) or not some:
        return total
    freedom = max(1, int(total**2 / sum(part.variance**2 / part.freedom for part in some)))
    return t_quantile(confidence, freedom) * math.sqrt(total)


def imbalance(old: Sequence[RunLatency], new: Sequence[RunLatency]) -> float:
    """How much of the variance between sessions is in a difference: 0 in one session, 2 between one and another.

    Each session counts by the square of how much more of it there is on one side. Runs that do not tell their
    session are taken to be of one a side, and of another than those of the other side.
    """
    before, after = [run.device_session or "old" for run in old], [run.device_session or "new" for run in new]
    return sum([(before.count(each) / len(old) - after.count(each) / len(new)) ** 2 for each in {*before, *after}])


def variance_within(run: RunLatency) -> float:
    """The variance of a run's log median by the longer side of its own interval: how calls scatter, and trials."""
    return max(_variance_to("low", run), _variance_to("high", run))


def _variance_to(end: End, run: RunLatency) -> float:
    interval = run.interval_ms
    if interval is None:
        return 0.0
    longer, shorter = (run.ms, interval.low) if end == "low" else (interval.high, run.ms)
    ratio = longer / shorter if shorter else math.inf
    return (math.log(max(ratio, 1.0)) / Z_95) ** 2
