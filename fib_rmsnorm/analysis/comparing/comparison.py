"""Old Traces beside new ones: what became faster, what became slower, and what cannot be decided."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from fib_rmsnorm.analysis.comparing.conditions import DEFINITION, RunConditions
from fib_rmsnorm.analysis.comparing.difference import (
    Drift,
    estimate_drift,
    find_difference,
    imbalance,
    share_confidence,
)
from fib_rmsnorm.analysis.trace_files.kinds import Content
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.workload_titles import show_name, title_by_definition
from fib_rmsnorm.student_t import Estimate

Verdict = Literal["slower", "faster", "no different", "suspect", "now fails"]
Key = tuple[str, str, str]
"""Definition, Workload and Solution."""


@dataclass(frozen=True)
class LeftOutRun:
    """A SUSPECT run that decides nothing, because both sides have others that are trusted."""

    side: Literal["OLD", "NEW"]
    number: int
    """From 1, in the order of time; with `--measure`, the round."""
    runs: int
    """How many the side has."""
    record: TraceRecord


@dataclass(frozen=True)
class SolutionComparison:
    """A Solution on a Workload, old and new. Each side has the runs of the newest Solution of that name that decide."""

    old: tuple[TraceRecord, ...]
    new: tuple[TraceRecord, ...]
    ratio: Estimate | None
    """New latency over old; None if the new one failed."""
    verdict: Verdict
    left_out: tuple[LeftOutRun, ...] = ()

    @property
    def record(self) -> TraceRecord:
        """The newest of the new."""
        return self.new[-1]

    @property
    def resolution(self) -> float | None:
        """The smallest relative difference that could be told from none."""
        return self.ratio.high / self.ratio.value - 1 if self.ratio else None

    @property
    def why_suspect(self) -> str:
        """The first reason of each side that has SUSPECT runs, and how many: the reasons of runs are much alike."""
        sides = (("OLD", self.old), ("NEW", self.new))
        return "; ".join(f"{side}: {doubt}" for side, runs in sides if (doubt := _first_doubt(runs)))

    @property
    def is_of_one_session(self) -> bool:
        """Whether both sides are of the same sessions, so that what a session adds cancels out."""
        return imbalance(self.old, self.new) == 0


def _first_doubt(runs: Sequence[TraceRecord]) -> str:
    doubtful = [run for run in runs if run.suspect]
    if not doubtful:
        return ""
    number = f"{len(doubtful)} of {len(runs)} runs, such as " if len(runs) > 1 else ""
    return f"{number}{doubtful[0].suspect[0]}"


@dataclass(frozen=True)
class Comparisons:
    """All comparisons, their confidence, and what could not be compared."""

    comparisons: tuple[SolutionComparison, ...]
    drift: Drift
    confidence: float
    """The confidence of each interval; together they have 95%."""
    missing: int
    """The number of old timings that NEW lacks, or has only under other conditions."""
    notes: tuple[str, ...]

    @cached_property
    def _titles(self) -> dict[str, dict[str, str]]:
        return title_by_definition((each.record.definition, each.record.named_workload) for each in self.comparisons)

    def title(self, each: SolutionComparison) -> str:
        """The title of its Workload."""
        return self._titles[each.record.definition][each.record.workload]

    def name(self, each: SolutionComparison) -> str:
        """The Solution on its Workload, as `fib-rmsnorm show` finds it."""
        return show_name(each.record.solution, self.title(each))

    def regressions(self, max_slowdown: float) -> list[SolutionComparison]:
        """Those that now fail, and those that are certainly slower, by more than `max_slowdown`."""
        return [
            each
            for each in self.comparisons
            if each.verdict == "now fails"
            or (each.verdict == "slower" and each.ratio is not None and each.ratio.value - 1 > max_slowdown)
        ]


FAR = 6.0
"""So many times as slow is slower even if a number is SUSPECT, if also 95% of the slower side's calls took longer than
95% of the other's. Other processes that share a core, the caches or the memory make each call a few times as slow, and
an H200 at its lowest clock is 5.7 times as slow as at its highest; what disturbs more than that spares some calls."""

_Runs = list[TraceRecord]


@dataclass(frozen=True)
class _Pair:
    """The runs that decide, and those that do not."""

    old: _Runs
    new: _Runs
    left_out: tuple[LeftOutRun, ...] = ()

    @property
    def is_trusted(self) -> bool:
        return are_trusted(self.old, self.new)


def compare(old: Iterable[TraceRecord], new: Iterable[TraceRecord], allow: Collection[str] = ()) -> Comparisons:
    """Compare every Solution and Workload that both sides have under the same conditions.

    Raises InputError if nothing can be compared: nothing in common, or only under conditions that differ in more
    than `allow` lists.
    """
    old_runs, new_runs = _by_key(old), _by_key(new)
    shared = [key for key in old_runs if key in new_runs]
    if not shared:
        raise InputError("OLD and NEW have no Solution and Workload in common")
    runs = (run for side in (old_runs, new_runs) for found in side.values() for run in found)
    conditions = RunConditions.of(runs, allow)
    matches = {key: _match(conditions, old_runs[key], new_runs[key]) for key in shared}
    pairs = [match for match in matches.values() if not isinstance(match, str)]
    refused = {key: match for key, match in matches.items() if isinstance(match, str)}
    if not pairs:
        raise InputError(f"OLD and NEW cannot be compared: {'; '.join(dict.fromkeys(refused.values()))}")
    sides = (side for pair in pairs for side in (pair.old, pair.new))
    drift = estimate_drift(side for side in sides if all(run.is_trusted for run in side))
    confidence = share_confidence(sum(pair.is_trusted for pair in pairs))
    lost = sum(any(record.is_native for record in old_runs[key]) for key in refused)
    return Comparisons(
        tuple(replace(judge(pair.old, pair.new, drift, confidence), left_out=pair.left_out) for pair in pairs),
        drift,
        confidence,
        len(old_runs.keys() - new_runs.keys()) + lost,
        tuple(_notes(old_runs, new_runs, refused)),
    )


def _by_key(records: Iterable[TraceRecord]) -> dict[Key, _Runs]:
    """The runs of the newest content of each Solution on each Workload, the oldest first."""
    groups: dict[Key, _Runs] = {}
    for record in sorted(records, key=lambda record: record.timestamp):
        groups.setdefault((record.definition, record.workload, record.solution), []).append(record)
    return {key: _newest_runs(runs) for key, runs in groups.items()}


def _newest_runs(runs: _Runs) -> _Runs:
    """The runs of the newest content; what failed last has no latency, whatever it had before."""
    newest = runs[-1]
    return [run for run in runs if Content.of(run) == Content.of(newest)] if newest.passed else [newest]


def _match(conditions: RunConditions, old: _Runs, new: _Runs) -> _Pair | str:
    """The runs to compare: those under the newest conditions that both sides have; else why there are none."""
    failed = [record for record in new[-1:] if not record.passed]
    old, new = ([record for record in runs if record.is_native] for runs in (old, new))
    if failed and old:  # a failure has no timer, clock or cache state
        differing = conditions.find_differing(old[-1], failed[-1])
        return _refuse({DEFINITION: differing[DEFINITION]}) if DEFINITION in differing else _Pair(old, failed)
    if not old or not new:
        where = "either" if not old and not new else "OLD" if new else "NEW"
        return f"no latency in {where}: the evaluations failed, or an interpreter ran them"
    for latest in reversed(new):
        if matching := conditions.equal_to(latest, old):
            return _leave_out_suspects(matching, conditions.equal_to(latest, new))
    return _refuse(conditions.find_differing(old[-1], new[-1]))


def _refuse(differing: Mapping[str, tuple[str, str]]) -> str:
    told = ", ".join(f"{name} (OLD {before}, NEW {after})" for name, (before, after) in differing.items())
    return f"they differ in {told}; to compare anyway: --allow {','.join(differing)}"


def _leave_out_suspects(old: _Runs, new: _Runs) -> _Pair:
    """Let the trusted runs decide where each side has one: a run that other processes disturbed refutes no other."""
    trusted_old, trusted_new = ([run for run in side if run.is_trusted] for side in (old, new))
    if not trusted_old or not trusted_new:
        return _Pair(old, new)
    sides: tuple[tuple[Literal["OLD", "NEW"], _Runs], ...] = (("OLD", old), ("NEW", new))
    left_out = (
        LeftOutRun(side, number, len(runs), run)
        for side, runs in sides
        for number, run in enumerate(runs, start=1)
        if not run.is_trusted
    )
    return _Pair(trusted_old, trusted_new, tuple(left_out))


def are_trusted(old: Sequence[TraceRecord], new: Sequence[TraceRecord]) -> bool:
    """Whether every number is one to decide by."""
    return all(run.is_trusted for run in (*old, *new))


def judge(
    old: Sequence[TraceRecord], new: Sequence[TraceRecord], drift: Drift, confidence: float
) -> SolutionComparison:
    """Compare runs of a Workload under the same conditions. A SUSPECT number decides nothing nearer than FAR."""
    if not new[-1].passed:
        return SolutionComparison(tuple(old), tuple(new), None, "now fails")
    ratio = find_difference(old, new, drift, confidence)
    verdict: Verdict = "no different"
    if not are_trusted(old, new):
        verdict = _judge_suspects(old, new, ratio)
    elif ratio.low > 1:
        verdict = "slower"
    elif ratio.high < 1:
        verdict = "faster"
    return SolutionComparison(tuple(old), tuple(new), ratio, verdict)


def _judge_suspects(old: Sequence[TraceRecord], new: Sequence[TraceRecord], ratio: Estimate) -> Verdict:
    if ratio.low > FAR and _takes_longer_in_every_call(new, old):
        return "slower"
    is_credible = all(run.copy_ms and (run.latency_ms or 0.0) >= run.copy_ms for run in new)
    if ratio.high < 1 / FAR and _takes_longer_in_every_call(old, new) and is_credible:
        return "faster"  # what is faster than a copy of the same bytes may be SUSPECT for that
    return "suspect"


def _takes_longer_in_every_call(slow: Iterable[TraceRecord], fast: Iterable[TraceRecord]) -> bool:
    """Whether the fast calls of `slow` (5th percentile) took longer than the slow ones of `fast` (95th)."""
    slowest_ms = max(run.latency_p95_ms or math.inf for run in fast)
    return all((run.latency_p5_ms or 0.0) > slowest_ms for run in slow)


def _notes(old: Collection[Key], new: Collection[Key], refused: Mapping[Key, str]) -> Iterable[str]:
    for reason, number in Counter(refused.values()).items():
        yield f"{number} not compared: {reason}"
    for name, missing in (("OLD", set(new) - set(old)), ("NEW", set(old) - set(new))):
        if missing:
            yield f"{len(missing)} not compared: not in {name}"
