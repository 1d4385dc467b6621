"""The result of each Solution on each Workload, with the reference and the baseline, and the fastest of them.

A tie is between those whose intervals do not tell them from the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.analysis.difference import Estimate, RunLatency, find_difference, find_interval, find_speedup, relate
from fib_rmsnorm.analysis.reading import record_of
from fib_rmsnorm.analysis.sections import SectionConditions
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.machine.gpu_models import find_gpu_model
from fib_rmsnorm.registry.selection import NamedWorkload, find_baseline, title_workloads

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.schema import Trace


@dataclass(frozen=True)
class Result:
    """A Solution on a Workload. A value that is unknown or would mislead is None."""

    record: TraceRecord
    label: str
    """The Solution's name, with the start of its digest unless it is today's; if that is unknown, the newest."""
    percent_of_peak: float | None
    speedup: Estimate | None
    """The reference's latency over the Solution's, both of its own run."""
    over_baseline: Estimate | None
    """The baseline's latency over the Solution's."""

    @property
    def mark(self) -> str:
        """`noisy`, `correct` for what was judged and not timed, or the status of what failed."""
        if not self.record.passed:
            return self.record.status
        return "correct" if self.record.interpreted else "noisy" if self.record.noisy else ""

    @property
    def share_of_copy(self) -> Estimate | None:
        """The time of the copy over its own, in percent; None where either, or an interval, is unknown."""
        share, own = self.record.percent_of_copy, find_interval(self.record)
        if not share or not own:
            return None
        copy = share * own.value
        return Estimate(share, copy / own.high, copy / own.low if own.low else math.inf)


@dataclass(frozen=True)
class Place:
    """A Solution on a Workload, and how much longer it takes than the fastest."""

    result: Result
    behind: Estimate
    """Its latency over the fastest one's, with a 95% interval."""

    @property
    def is_tied(self) -> bool:
        """Whether it may be as fast as the fastest."""
        return self.behind.verdict == "tie"


@dataclass(frozen=True)
class WorkloadResults:
    """All that was evaluated on a Workload under the same conditions, the fastest first."""

    title: str
    """`batch=32`; with the scalars, then the uuid, if another Workload has the same axes."""
    workload: str
    empty_ms: float | None
    copy_ms: float | None
    results: tuple[Result, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """The Workload for JSON: its uuid, its axes and its scalars."""
        record = self.results[0].record
        return {"workload": self.workload, "axes": record.axes, "scalars": record.scalars}

    @cached_property
    def places(self) -> list[Place]:
        """The timed results that can win, the fastest first."""
        able = [result for result in self.results if not self._why_left_out(result)]
        timed = [(latency, each) for each in able if (latency := RunLatency.of(each.record))]
        timed.sort(key=lambda one: one[0].ms)
        return [Place(result, find_difference([timed[0][0]], [latency])) for latency, result in timed]

    @property
    def left_out(self) -> list[tuple[Result, str]]:
        """The results that cannot win, each with the reason."""
        return [(result, why) for result in self.results if (why := self._why_left_out(result))]

    def _why_left_out(self, result: Result) -> str:
        """Why a result cannot win; empty if it can."""
        record = result.record
        versions = [each for each in self.results if each.record.solution == record.solution]
        # An earlier version may have been measured later: a kernel was changed back.
        current = [each for each in versions if each.label == record.solution] or versions
        if result not in current or record.timestamp < max(each.record.timestamp for each in current):
            return "replaced by a newer version"
        if record.is_native:
            return ""
        if record.interpreted and record.passed:
            return "interpreted, so not timed"
        return result.mark or "no latency"

    @property
    def winner(self) -> Result | None:
        """The fastest result; None if none was timed."""
        return self.places[0].result if self.places else None

    @property
    def fastest(self) -> TraceRecord | None:
        """The winner's Trace."""
        return self.winner.record if self.winner else None

    @property
    def ties(self) -> list[Result]:
        """The Solutions that may be as fast as the winner."""
        return [place.result for place in self.places[1:] if place.is_tied]

    @property
    def apart(self) -> float | None:
        """How far the winner and those that tie could be apart; None without a tie."""
        return max((place.behind.apart for place in self.places[1:] if place.is_tied), default=None)


@dataclass(frozen=True)
class Standing:
    """A Solution over all Workloads of a section."""

    label: str
    wins: int
    """Workloads that it won, or on which it tied with the winner."""
    workloads: int
    mean_behind: float
    """Geometric mean of its latency over the fastest one's: 1 is the fastest everywhere."""


@dataclass(frozen=True)
class SectionResults:
    """The results of a section."""

    definition: str
    conditions: SectionConditions
    baseline: str | None
    workloads: tuple[WorkloadResults, ...]

    @property
    def results(self) -> list[Result]:
        """All of them, workload by workload."""
        return [result for each in self.workloads for result in each.results]

    @property
    def leaders(self) -> list[Standing]:
        """The Solutions with the most Workloads that they won, or on which they tied; none if nothing was timed."""
        most = max((each.wins for each in self.standings), default=0)
        return [each for each in self.standings if each.wins == most]

    @property
    def is_decided(self) -> bool:
        """Whether the leaders are the fastest wherever something was timed, and no other may be."""
        decided = sum(each.winner is not None for each in self.workloads)
        may_tie = len(self.leaders) == 1 and any(each.ties for each in self.workloads)
        return all(each.wins == decided for each in self.leaders) and not may_tie

    @cached_property
    def standings(self) -> list[Standing]:
        """Over the Workloads with a winner: Solutions with all of them first, then those closest to the winners."""
        places: dict[str, list[Place]] = {}
        for place in (place for each in self.workloads for place in each.places):
            places.setdefault(place.result.label, []).append(place)
        found = [
            Standing(
                label, sum(each.is_tied for each in mine), len(mine), geometric_mean(each.behind.value for each in mine)
            )
            for label, mine in places.items()
        ]
        return sorted(found, key=lambda standing: (-standing.workloads, standing.mean_behind))


def find_results(found: TraceSet) -> list[SectionResults]:
    """Sum up each section."""
    from fib_rmsnorm.schema import digest

    digests = {name: digest(each) for name, each in found.solutions.items()}
    results = []
    for (definition, conditions), records in found.sections.items():
        timed = {record.solution for record in records if record.is_native}
        baseline = find_baseline([each for name, each in found.solutions.items() if name in timed])
        name = baseline.name if baseline else None
        workloads = _list_workloads(records, name, _label(records, digests))
        results.append(SectionResults(definition, conditions, name, workloads))
    return results


def sum_up_run(traces: Iterable[Trace]) -> SectionResults:
    """Sum up what was measured just now of one Definition on one device, whatever its clock was meanwhile."""
    records = [record for number, trace in enumerate(traces, start=1) if (record := record_of(trace, number))]
    timer = next((record.timer for record in records if record.timer), None)
    conditions = SectionConditions(records[0].hardware, timer, None, None, records[0].settings)
    workloads = _list_workloads(records, None, _label(records, {}))
    return SectionResults(records[0].definition, conditions, None, workloads)


def _list_workloads(
    records: Sequence[TraceRecord], baseline: str | None, labels: dict[tuple[str, str | None], str]
) -> tuple[WorkloadResults, ...]:
    titles = title_workloads([NamedWorkload(each.workload, each.axes, each.scalars) for each in records])
    groups: dict[str, list[TraceRecord]] = {}
    for record in sorted(records, key=lambda record: tuple(record.axes.values())):
        groups.setdefault(record.workload, []).append(record)
    found = []
    for uuid, mine in groups.items():
        rivals = [record for record in mine if record.is_native and record.solution == baseline]
        rival = max(rivals, key=lambda record: record.timestamp, default=None)
        # Those that failed have no latency and come last.
        ordered = sorted(mine, key=lambda r: (not r.passed, r.latency_ms or math.inf, r.solution))
        empty_ms = next((record.empty_ms for record in ordered if record.empty_ms), None)
        copy_ms = next((record.copy_ms for record in ordered if record.copy_ms), None)
        results = [_result(record, labels[record.solution, record.solution_sha256], rival) for record in ordered]
        found.append(WorkloadResults(titles[uuid], uuid, empty_ms, copy_ms, tuple(results)))
    return tuple(found)


def _label(records: Sequence[TraceRecord], digests: Mapping[str, str]) -> dict[tuple[str, str | None], str]:
    """A name for each content of each Solution: today's has the Solution's, earlier ones tell their digest.

    Where today's is not known, the newest counts as it.
    """
    newest = {record.solution: record.solution_sha256 for record in sorted(records, key=lambda each: each.timestamp)}
    labels = {}
    for name, sha256 in {(record.solution, record.solution_sha256) for record in records}:
        current = digests.get(name) if sha256 is not None else None
        is_current = sha256 == (current or newest[name])
        labels[name, sha256] = name if is_current else f"{name} (earlier: {(sha256 or 'unknown')[:6]})"
    return labels


def _result(record: TraceRecord, label: str, rival: TraceRecord | None) -> Result:
    if not record.is_native:
        return Result(record, label, None, None, None)
    bandwidth, peak = record.bandwidth_gb_per_s, peak_of(record)
    of_peak = 100 * bandwidth / peak.gb_per_s if bandwidth and peak else None
    return Result(record, label, of_peak, find_speedup(record), relate(record, rival) if record is not rival else None)


@dataclass(frozen=True)
class Peak:
    """The peak bandwidth of a device, and its source."""

    gb_per_s: float
    source: str


def peak_of(record: TraceRecord) -> Peak | None:
    """The device's figure by the Trace, else by the datasheet."""
    if record.peak_bandwidth_gb_per_s:
        return Peak(record.peak_bandwidth_gb_per_s, "memory clock times bus width, as the device reports them")
    model = find_gpu_model(record.hardware)
    return Peak(model.bandwidth_gb_per_s, f"datasheet of the {model.name}") if model else None
