"""Old Traces beside new ones: what became faster, what became slower, and what cannot be decided."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from fib_rmsnorm.analysis.difference import (
    CONFIDENCE,
    Drift,
    Estimate,
    RunLatency,
    between_runs,
    find_difference,
    imbalance,
    variance_within,
)
from fib_rmsnorm.analysis.difference import Verdict as LatencyVerdict
from fib_rmsnorm.analysis.sections import CLOCK, DEFINITION, RunConditions
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.selection import NamedWorkload, show_name, title_by_definition

Verdict = LatencyVerdict | Literal["now fails"]
Key = tuple[str, str, str]
"""Definition, Workload and Solution."""

MISSING = "missing"
"""NEW lacks timings that OLD has: what a gate may be told to let pass, besides conditions that differ."""


@dataclass(frozen=True)
class SolutionComparison:
    """A Solution on a Workload, old and new. Each side has the runs of the newest content of that name."""

    old: tuple[TraceRecord, ...]
    new: tuple[TraceRecord, ...]
    ratio: Estimate | None
    """New latency over old; None if the new one failed."""
    verdict: Verdict

    @property
    def record(self) -> TraceRecord:
        """The newest of the new."""
        return self.new[-1]

    @property
    def resolution(self) -> float | None:
        """The smallest relative difference that could be told from none."""
        return self.ratio.high / self.ratio.value - 1 if self.ratio else None

    @property
    def is_of_one_session(self) -> bool:
        """Whether both sides are of the same sessions, so that what a session adds cancels out."""
        return imbalance(latencies(self.old), latencies(self.new)) == 0


@dataclass(frozen=True)
class Comparisons:
    """All comparisons, their confidence, and what could not be compared."""

    comparisons: tuple[SolutionComparison, ...]
    drift: Drift
    confidence: float
    """The confidence of each interval; all of them together have 95%."""
    missing: int
    """The number of old timings that NEW lacks, or has only under other conditions."""
    notes: tuple[str, ...]
    max_slowdown: float | None
    """The slowdown that a gate lets pass: 0.05 is 5%. None without a gate."""

    @cached_property
    def _titles(self) -> dict[str, dict[str, str]]:
        records = [each.record for each in self.comparisons]
        return title_by_definition((r.definition, NamedWorkload(r.workload, r.axes, r.scalars)) for r in records)

    def title(self, each: SolutionComparison) -> str:
        """The title of its Workload."""
        return self._titles[each.record.definition][each.record.workload]

    def name(self, each: SolutionComparison) -> str:
        """The Solution on its Workload, as `fib-rmsnorm show` finds it."""
        return show_name(each.record.solution, self.title(each))

    @cached_property
    def regressions(self) -> list[SolutionComparison]:
        """The Solutions that now fail, and those that are certainly slower, by more than the gate lets pass."""
        limit = self.max_slowdown or 0.0
        return [
            each
            for each in self.comparisons
            if each.verdict == "now fails"
            or (each.verdict == "slower" and each.ratio is not None and each.ratio.value - 1 > limit)
        ]

    @cached_property
    def unjudged(self) -> list[SolutionComparison]:
        """The ties that may hide a slowdown of more than the limit, which must not look like a pass.

        A limit of 0 asks only for what is certainly slower, so every tie passes.
        """
        limit = self.max_slowdown or 0.0
        return [
            each
            for each in self.comparisons
            if limit
            and each.verdict == "tie"
            and each.ratio is not None
            and min(each.ratio.high - 1, each.resolution or 0.0) > limit
        ]


_Runs = list[TraceRecord]


def compare(
    old: Iterable[TraceRecord],
    new: Iterable[TraceRecord],
    allow: Collection[str] = (),
    *,
    in_turn: bool = False,
    max_slowdown: float | None = None,
) -> Comparisons:
    """Compare every Solution and Workload that both sides have under the same conditions.

    With `in_turn`, the two sides are two Solutions that were measured in turn, perhaps of two Definitions: the first
    run of one is compared with the first of the other. Raises InputError if nothing can be compared: nothing in common,
    or only under conditions that differ in more than `allow` lists.
    """
    old, new = [*old], [*new]
    notes = [*_name_alike(old, new)] if in_turn else []
    old_runs, new_runs = _by_key(old), _by_key(new)
    shared = [key for key in old_runs if key in new_runs]
    if not shared:
        raise InputError("OLD and NEW have no Solution and Workload in common")
    runs = (run for side in (old_runs, new_runs) for found in side.values() for run in found)
    conditions = RunConditions(runs, (*allow, CLOCK) if in_turn else allow)  # a clock that moves, moves for both
    matches = {key: _match(conditions, old_runs[key], new_runs[key]) for key in shared}
    pairs = [match for match in matches.values() if not isinstance(match, str)]
    refused = {key: match for key, match in matches.items() if isinstance(match, str)}
    if not pairs:
        raise InputError(f"OLD and NEW cannot be compared: {'; '.join(dict.fromkeys(refused.values()))}")
    timed = [(latencies(before), latencies(after)) for before, after in pairs]
    if in_turn:
        # Of rounds in which the two sides were measured in turn: how far their differences lie from each other.
        rounds = (zip(before, after, strict=False) for before, after in timed)
        drift = _pool([(math.log(new.ms / old.ms), [old, new]) for old, new in pairs] for pairs in rounds)
    else:
        drift = estimate_drift(side for sides in timed for side in sides)
    confidence = share_confidence(sum(bool(after) for _, after in timed))
    lost = sum(any(record.is_native for record in old_runs[key]) for key in refused)
    return Comparisons(
        tuple(judge(before, after, drift, confidence) for before, after in pairs),
        drift,
        confidence,
        len(old_runs.keys() - new_runs.keys()) + lost,
        (*notes, *_notes(old_runs, new_runs, refused)),
        max_slowdown,
    )


def _name_alike(old: _Runs, new: _Runs) -> Iterable[str]:
    """Give two Solutions one name, Definition and Workload of a size, by which they are paired; say what they were."""
    names = {"solution": "", "definition": ""}
    for field in names:
        before, after = (list(dict.fromkeys(getattr(run, field) for run in side)) for side in (old, new))
        names[field] = " -> ".join(dict.fromkeys([*before, *after]))
    sizes = {tuple(run.axes.values()): run.workload for run in old}
    is_of_two = " -> " in names["definition"]
    for run in (*old, *new):
        run.solution, run.definition = names["solution"], names["definition"]
        run.workload = sizes.get(tuple(run.axes.values()), run.workload)
        run.definition_sha256 = None if is_of_two else run.definition_sha256
    if is_of_two:
        yield f"{names['definition']}: two Definitions, by each of which its Solution was judged"


def estimate_drift(groups: Iterable[Sequence[RunLatency]]) -> Drift:
    """By runs of equal evaluations: how far those of one session lie from each other."""
    sessions: dict[tuple[int, str | None], list[RunLatency]] = {}
    for number, runs in enumerate(groups):
        for run in runs:
            sessions.setdefault((number, run.device_session), []).append(run)
    return _pool([(math.log(run.ms), [run]) for run in runs] for runs in sessions.values())


def _pool(groups: Iterable[Sequence[tuple[float, list[RunLatency]]]]) -> Drift:
    """Each group has values that would be equal without drift, each with the runs whose drift is in it."""
    squares, repeats = 0.0, 0
    for group in groups:
        if len(group) < 2:
            continue
        middle, freedom = fmean(value for value, _ in group), len(group) - 1
        within = fmean(sum(map(variance_within, runs)) for _, runs in group)
        if math.isinf(within):
            continue
        assumed = fmean(sum(between_runs(run).deviation(run) ** 2 for run in runs) for _, runs in group)
        squares += (sum((value - middle) ** 2 for value, _ in group) - freedom * within) / assumed
        repeats += freedom
    return Drift(squares, repeats)


def share_confidence(comparisons: int) -> float:
    """The confidence of each of several intervals with which all hold together at 95% (Sidak 1967)."""
    return float(CONFIDENCE ** (1 / max(1, comparisons)))


def latencies(runs: Iterable[TraceRecord]) -> list[RunLatency]:
    """The results of the runs that passed and were timed."""
    return [latency for run in runs if run.passed and (latency := RunLatency.of(run))]


def _by_key(records: Iterable[TraceRecord]) -> dict[Key, _Runs]:
    """The runs of the newest content of each Solution on each Workload, the oldest first."""
    groups: dict[Key, _Runs] = {}
    for record in sorted(records, key=lambda record: record.timestamp):
        groups.setdefault((record.definition, record.workload, record.solution), []).append(record)
    return {key: _newest_runs(runs) for key, runs in groups.items()}


def _newest_runs(runs: _Runs) -> _Runs:
    """The runs of the newest content; what failed last has no latency, whatever it had before."""
    newest = runs[-1]
    content = newest.definition_sha256, newest.solution_sha256
    alike = [run for run in runs if (run.definition_sha256, run.solution_sha256) == content]
    return alike if newest.passed else [newest]


def _match(conditions: RunConditions, old: _Runs, new: _Runs) -> tuple[_Runs, _Runs] | str:
    """The runs to compare: those under the newest conditions that both sides have; else why there are none."""
    failed = [record for record in new[-1:] if not record.passed]
    old, new = ([record for record in runs if record.is_native] for runs in (old, new))
    if failed and old:  # a failure has no timer, clock or cache state
        differing = conditions.find_differing(old[-1], failed[-1])
        return _refuse({DEFINITION: differing[DEFINITION]}) if DEFINITION in differing else (old, failed)
    if not old or not new:
        where = "either" if not old and not new else "OLD" if new else "NEW"
        return f"no latency in {where}: the evaluations failed, or an interpreter ran them"
    for latest in reversed(new):
        if matching := conditions.equal_to(latest, old):
            return matching, conditions.equal_to(latest, new)
    return _refuse(conditions.find_differing(old[-1], new[-1]))


def _refuse(differing: Mapping[str, tuple[str, str]]) -> str:
    told = ", ".join(f"{name} (OLD {before}, NEW {after})" for name, (before, after) in differing.items())
    return f"they differ in {told}; to compare anyway: --allow {','.join(differing)}"


def judge(old: _Runs, new: _Runs, drift: Drift, confidence: float) -> SolutionComparison:
    """Compare runs of a Workload under the same conditions."""
    if not new[-1].passed:
        return SolutionComparison(tuple(old), tuple(new), None, "now fails")
    ratio = find_difference(latencies(old), latencies(new), drift, confidence)
    return SolutionComparison(tuple(old), tuple(new), ratio, ratio.verdict)


def _notes(old: Collection[Key], new: Collection[Key], refused: Mapping[Key, str]) -> Iterable[str]:
    for reason, number in Counter(refused.values()).items():
        yield f"{number} not compared: {reason}"
    for name, missing in (("OLD", set(new) - set(old)), ("NEW", set(old) - set(new))):
        if missing:
            yield f"{len(missing)} not compared: not in {name}"
