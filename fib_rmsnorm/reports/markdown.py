"""Results as Markdown tables, for pages that are generated from traces."""

from __future__ import annotations

from collections.abc import Sequence

from fib_rmsnorm.reports.results import axes_text
from fib_rmsnorm.schema import Performance, Trace


def newest_passed(traces: Sequence[Trace], hardware: str) -> dict[tuple[str, str], Performance]:
    """The newest passed, native result of each (Solution, Workload) on a device model."""
    found: dict[tuple[str, str], tuple[str, Performance]] = {}
    for trace in traces:
        evaluation = trace.evaluation
        if evaluation is None or evaluation.performance is None or evaluation.environment.hardware != hardware:
            continue
        if evaluation.performance.interpreted:
            continue
        key = (trace.solution or "", axes_text(trace))
        if key not in found or found[key][0] < evaluation.timestamp:
            found[key] = (evaluation.timestamp, evaluation.performance)
    return {key: performance for key, (_, performance) in found.items()}


def results_markdown(traces: Sequence[Trace], hardware: str) -> str:
    """Median latency in microseconds and percent of the size-matched copy, Solutions by Workload.

    The first rows are what bounds them: an empty kernel, the copy, and the Definition's reference.
    """
    results = newest_passed(traces, hardware)
    columns = sorted({axes for _, axes in results}, key=lambda axes: int(axes.rpartition("=")[2]))
    names = sorted({name for name, _ in results})
    by_column = {axes: [results[name, axes] for name in names if (name, axes) in results] for axes in columns}
    lines = [
        f"| us (% of copy) | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
        _row("*an empty kernel*", [_ceiling(by_column[axes][0], "empty_ms") for axes in columns]),
        _row("*a copy of the same bytes*", [_ceiling(by_column[axes][0], "copy_ms") for axes in columns]),
        _row("*the reference*", [_microseconds(by_column[axes][0].reference_latency_ms) for axes in columns]),
    ]
    lines += [_row(f"`{name}`", [_cell(results.get((name, axes))) for axes in columns]) for name in names]
    return "\n".join(lines)


def _row(title: str, cells: Sequence[str]) -> str:
    return f"| {title} | {' | '.join(cells)} |"


def _ceiling(performance: Performance, name: str) -> str:
    ceiling = performance.ceiling
    return _microseconds(getattr(ceiling, name)) if ceiling else ""


def _cell(performance: Performance | None) -> str:
    if performance is None:
        return ""
    percent = f" ({performance.percent_of_copy:.0f}%)" if performance.percent_of_copy is not None else ""
    return f"{_microseconds(performance.latency_ms)}{percent}{' *' if performance.suspect else ''}"


def _microseconds(latency_ms: float) -> str:
    value = latency_ms * 1e3
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
