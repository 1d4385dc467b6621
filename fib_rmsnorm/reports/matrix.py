"""A section at a glance: Solutions by Workload."""

from __future__ import annotations

from collections.abc import Sequence

from fib_rmsnorm.analysis.results import Bound, Result, SectionResults
from fib_rmsnorm.reports.text.tables import Grid


def results_grid(section: SectionResults) -> Grid:
    """Median latency in microseconds and percent of the size-matched copy.

    The first rows are what bounds them: an empty kernel, the copy, and the Definition's reference. A `*` marks what
    is SUSPECT; what failed says how.
    """
    workloads = section.workloads
    found: dict[str, dict[str, str]] = {}
    for each in workloads:
        for result in each.results:
            found.setdefault(result.label, {})[each.workload] = _cell(result)
    bounds: dict[str, Sequence[Bound | None]] = {
        "*an empty kernel*": [Bound.of(each.empty_ms, None, None, ()) for each in workloads],
        "*a copy of the same bytes*": [each.copy for each in workloads],
        "*the reference*": [each.reference for each in workloads],
    }
    rows = [(name, *(map(_bound_cell, values))) for name, values in bounds.items()]
    rows += [(label, *(cells.get(each.workload, "") for each in workloads)) for label, cells in sorted(found.items())]
    return Grid(("us (% of copy)", *(f">{each.title}" for each in workloads)), rows)


def _bound_cell(bound: Bound | None) -> str:
    return f"{_microseconds(bound.latency_ms)}{' *' if bound.suspect else ''}" if bound else ""


def _cell(result: Result) -> str:
    record = result.record
    if not record.is_native or record.latency_ms is None:
        return result.mark
    percent = f" ({record.percent_of_copy:.0f}%)" if record.percent_of_copy is not None else ""
    return f"{_microseconds(record.latency_ms)}{percent}{' *' if record.suspect else ''}"


def _microseconds(latency_ms: float) -> str:
    value = latency_ms * 1e3
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
