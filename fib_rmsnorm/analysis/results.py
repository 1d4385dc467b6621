"""The result of each Solution on each Workload, with the reference and the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.analysis.decoding import record_of
from fib_rmsnorm.analysis.difference import (
    Estimate,
    RunLatency,
    find_interval,
    find_speedup,
    recorded,
    relate,
)
from fib_rmsnorm.analysis.sections import Section, SectionConditions
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.gpu_models import find_gpu_model
from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_workloads

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.schema import Solution, Trace

BASELINE_AUTHOR = "baseline"


@dataclass(frozen=True)
class Result:
    """A Solution on a Workload. A value that is unknown or would mislead is None."""

    record: TraceRecord
    label: str
    """The Solution's name, with the start of its digest unless it is today's; if that is unknown, the newest."""
    mark: str
    """`noisy`, `correct` for what was judged and not timed, or the status of what failed."""
    interval_ms: Estimate | None = None
    """The median with its 95% interval."""
    in_graph: Estimate | None = None
    dependent: Estimate | None = None
    """The cost of a call in a CUDA graph, without and with programmatic dependent launch around it."""
    bandwidth_gb_per_s: float | None = None
    percent_of_peak: float | None = None
    speedup: Estimate | None = None
    """The reference's latency over the Solution's, both of its own run."""
    over_baseline: Estimate | None = None
    """The baseline's latency over the Solution's."""


@dataclass(frozen=True)
class WorkloadResults:
    """All that was evaluated on a Workload under the same conditions, the fastest first."""

    title: str
    """`batch=32`; with the scalars, then the uuid, if another Workload has the same axes."""
    workload: str
    reference: RunLatency | None
    empty_ms: float | None
    copy: RunLatency | None
    results: tuple[Result, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """The Workload for JSON: its uuid, its axes and its scalars."""
        record = self.results[0].record
        return {"workload": self.workload, "axes": record.axes, "scalars": record.scalars}


@dataclass(frozen=True)
class SectionResults:
    """The results of a section."""

    definition: str
    conditions: SectionConditions
    baseline: str | None
    workloads: tuple[WorkloadResults, ...]
    results: tuple[Result, ...]
    """All of them, workload by workload."""


def find_results(found: TraceSet, baseline: str | None = None) -> list[SectionResults]:
    """Sum up each section. Raises InputError if no Trace is of the `baseline`."""
    sections = found.sections
    if baseline is not None:
        names = sorted({record.solution for section in sections for record in section.records})
        if baseline not in names:
            raise InputError(
                f"no Trace of a Solution {baseline!r} to use as the baseline (found: {', '.join(names) or 'none'})"
            )
    return [
        _section_results(section, baseline or _find_baseline(section, found.solutions), found.digests)
        for section in sections
    ]


def sum_up_run(traces: Iterable[Trace]) -> SectionResults:
    """Sum up what was measured just now of one Definition on one device, whatever its clock was meanwhile."""
    records = [record for number, trace in enumerate(traces, start=1) if (record := record_of(trace, number))]
    timer = next((record.timer for record in records if record.timer), None)
    conditions = SectionConditions(records[0].hardware, timer, None, None, records[0].settings)
    return _section_results(Section(records[0].definition, conditions, tuple(records)), None, {})


def _find_baseline(section: Section, solutions: Mapping[str, Solution]) -> str | None:
    """The plainest Python Solution by the author `baseline`: it runs on CPUs too, and has the least source code."""
    names = {
        record.solution
        for record in section.records
        if record.author == BASELINE_AUTHOR and record.language == "python" and record.is_native
    }

    def plainness(name: str) -> tuple[bool, int, str]:
        solution = solutions[name]
        size = sum(len(source.content) for source in solution.sources)
        return "cpu" not in solution.spec.target_hardware, size, name

    return min(names & solutions.keys(), key=plainness, default=None)


def _section_results(section: Section, baseline: str | None, digests: Mapping[str, str]) -> SectionResults:
    labels = _label(section.records, digests)
    titles = title_workloads([NamedWorkload(each.workload, each.axes, each.scalars) for each in section.records])
    groups: dict[str, list[TraceRecord]] = {}
    for record in sorted(section.records, key=lambda record: tuple(record.axes.values())):
        groups.setdefault(record.workload, []).append(record)
    workloads = [_workload_results(titles[uuid], uuid, mine, labels, baseline) for uuid, mine in groups.items()]
    return SectionResults(
        section.definition,
        section.conditions,
        baseline if any(record.solution == baseline for record in section.records) else None,
        tuple(workloads),
        tuple(result for each in workloads for result in each.results),
    )


def _label(records: Sequence[TraceRecord], digests: Mapping[str, str]) -> dict[tuple[str, str | None], str]:
    """A name for each content of each Solution: today's has the Solution's, earlier ones tell their digest.

    Where today's is not known, the newest counts as it.
    """
    newest: dict[str, TraceRecord] = {}
    for record in records:
        if record.solution not in newest or newest[record.solution].timestamp < record.timestamp:
            newest[record.solution] = record

    def is_current(record: TraceRecord) -> bool:
        if record.solution in digests and record.solution_sha256 is not None:
            return record.solution_sha256 == digests[record.solution]
        return record.solution_sha256 == newest[record.solution].solution_sha256

    return {
        (record.solution, record.solution_sha256): record.solution
        if is_current(record)
        else f"{record.solution} (earlier: {(record.solution_sha256 or 'unknown')[:6]})"
        for record in records
    }


def _workload_results(
    title: str,
    workload: str,
    records: Sequence[TraceRecord],
    labels: dict[tuple[str, str | None], str],
    baseline: str | None,
) -> WorkloadResults:
    native = [record for record in records if record.is_native]
    rivals = [record for record in native if record.solution == baseline]
    rival = max(rivals, key=lambda record: record.timestamp, default=None)
    # Those that failed have no latency and come last.
    ordered = sorted(records, key=lambda r: (not r.passed, r.latency_ms or math.inf, r.solution))
    timed = next((record for record in ordered if record.empty_ms), None)
    return WorkloadResults(
        title,
        workload,
        next(filter(None, map(RunLatency.of_reference, ordered)), None),
        timed.empty_ms if timed else None,
        next(filter(None, map(_copy_of, ordered)), None),
        tuple(_result(record, labels[record.solution, record.solution_sha256], rival) for record in ordered),
    )


def _result(record: TraceRecord, label: str, rival: TraceRecord | None) -> Result:
    mark = "correct" if record.interpreted else "noisy" if record.noisy else ""
    if not record.is_native:
        mark = mark if record.passed else record.status
        return Result(record, label, mark)
    bandwidth = record.bandwidth_gb_per_s
    peak = peak_of(record)
    return Result(
        record,
        label,
        mark,
        interval_ms=find_interval(record),
        in_graph=recorded(record.chained_latency_ms, record.chained_low_ms, record.chained_high_ms),
        dependent=recorded(record.dependent_latency_ms, record.dependent_low_ms, record.dependent_high_ms),
        bandwidth_gb_per_s=bandwidth,
        percent_of_peak=100 * bandwidth / peak.gb_per_s if bandwidth and peak else None,
        speedup=find_speedup(record),
        over_baseline=relate(record, rival) if record is not rival else None,
    )


def _copy_of(record: TraceRecord) -> RunLatency | None:
    if not record.copy_ms:
        return None
    interval = recorded(record.copy_ms, record.copy_low_ms, record.copy_high_ms)
    return RunLatency(record.copy_ms, interval, record.timer, record.device_session)


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
