"""The x axis of a section's charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.results import Result, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord


@dataclass(frozen=True)
class Axis:
    """The x axis: the Definition's axis that varies, or the bytes."""

    label: str
    values: dict[str, float]
    """By Workload."""


def find_axis(findings: SectionFindings) -> Axis | None:
    """The only axis that differs between all Workloads, else their bytes; None if those are unknown."""
    workloads = findings.results.workloads
    axes = {each.workload: each.results[0].record.axes for each in workloads}
    shared = set.intersection(*(set(sizes) for sizes in axes.values()))
    varying = [name for name in sorted(shared) if _tells_apart([sizes[name] for sizes in axes.values()])]
    if len(varying) == 1:
        return Axis(varying[0], {workload: sizes[varying[0]] for workload, sizes in axes.items()})
    moved = {each.workload: bytes_of(each) for each in workloads}
    known = {workload: number for workload, number in moved.items() if number}
    return Axis("bytes moved", known) if known else None


def _tells_apart(values: list[int]) -> bool:
    """Whether no two are the same, and all can stand on a logarithmic axis."""
    return len(set(values)) == len(values) and all(value > 0 for value in values)


def bytes_of(workload: WorkloadResults) -> float:
    """The bytes of a Workload; 0 if no Trace has them."""
    return next((float(r.record.bytes_moved) for r in workload.results if r.record.bytes_moved), 0.0)


def along_axis(findings: SectionFindings, axis: Axis) -> Iterator[tuple[float, WorkloadResults]]:
    """Each Workload and where it stands on the axis."""
    for each in findings.results.workloads:
        if each.workload in axis.values:
            yield axis.values[each.workload], each


def by_solution(findings: SectionFindings, axis: Axis) -> dict[str, list[tuple[float, str, Result]]]:
    """The native results of each Solution along the axis: noisy ones too, which their notes say."""
    groups: dict[str, list[tuple[float, str, Result]]] = {}
    for x, each in along_axis(findings, axis):
        for result in each.results:
            if result.record.is_native:
                doubt = ", noisy" if result.record.noisy else ""
                groups.setdefault(result.label, []).append((x, f"{each.title}{doubt}", result))
    return dict(sorted(groups.items()))


def ends_of(record: TraceRecord) -> tuple[float | None, float | None]:
    """The ends of a latency's interval in milliseconds, where it has one."""
    return (record.interval_ms.low, record.interval_ms.high) if record.interval_ms else (None, None)
