"""The README's table: Solutions by Workload, in microseconds."""

from __future__ import annotations

from collections.abc import Callable

from fib_rmsnorm.analysis.difference import Estimate, RunLatency, find_interval, recorded
from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.text.units import format_either_side


def make_table(section: SectionResults) -> str:
    """Median latency with its ± over 2%, and the speedup over the reference; a `*` marks what is noisy.

    The first rows are what bounds them: an empty kernel, the copy, and the Definition's reference.
    """
    workloads = section.workloads
    found: dict[str, dict[str, str]] = {}
    for each in workloads:
        for result in each.results:
            found.setdefault(result.label, {})[each.workload] = _cell(result)
    rows = [
        ("*an empty kernel*", *(_number(each.empty_ms, None) for each in workloads)),
        ("*a copy of the same bytes*", *(_first(each, _find_copy) for each in workloads)),
        ("*the reference*", *(_first(each, _find_reference) for each in workloads)),
    ]
    rows += [(label, *(cells.get(each.workload, "") for each in workloads)) for label, cells in sorted(found.items())]
    lines = [["us (speedup)", *(each.title for each in workloads)], ["---", *(["---:"] * len(workloads))], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _first(workload: WorkloadResults, find: Callable[[TraceRecord], Estimate | None]) -> str:
    found = next(filter(None, (find(result.record) for result in workload.results)), None)
    return _number(found.value, found) if found else ""


def _find_copy(record: TraceRecord) -> Estimate | None:
    return recorded(record.copy_ms, record.copy_low_ms, record.copy_high_ms)


def _find_reference(record: TraceRecord) -> Estimate | None:
    reference = RunLatency.of_reference(record)
    return reference.interval_ms if reference else None


def _number(latency_ms: float | None, interval_ms: Estimate | None) -> str:
    """`113 ±32%`."""
    if not latency_ms:
        return ""
    value = latency_ms * 1e3
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {format_either_side(interval_ms)}".rstrip()


def _cell(result: Result) -> str:
    record = result.record
    if not record.is_native or record.latency_ms is None:
        return result.mark
    reference_ms = record.reference_latency_ms
    speedup = f" ({reference_ms / record.latency_ms:.3g}x)" if reference_ms else ""
    return f"{_number(record.latency_ms, find_interval(record))}{speedup}{' *' if record.noisy else ''}"
