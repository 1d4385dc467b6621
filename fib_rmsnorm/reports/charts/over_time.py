"""Latency over time."""

from __future__ import annotations

from collections.abc import Iterator

from fib_rmsnorm.analysis.comparing.history import SolutionHistory, WorkloadHistory
from fib_rmsnorm.reports.charts.chart import Chart, Point, Series, limits


def over_time_chart(history: SolutionHistory) -> Chart | None:
    """The latency of each run relative to the first one under the same conditions; None without any."""
    series = [each for workload in history.workloads for each in _lines(workload)]
    if not series:
        return None
    most = max(len(each.runs) for each in history.workloads)
    series += limits(("the first run", [(0.0, 1.0), (most - 1.0, 1.0)]))
    return Chart(
        "history",
        f"{history.solution} over time on {history.hardware}",
        "run on the Workload, the oldest first",
        "latency / first latency",
        tuple(series),
        x_scale="linear",
        y_scale="linear",
        categories=tuple(str(number) for number in range(1, most + 1)),
        note="A hollow mark is noisy.",
    )


def _lines(workload: WorkloadHistory) -> Iterator[Series]:
    """A line for each of the conditions under which the Workload was measured."""
    groups = dict.fromkeys(run.conditions for run in workload.runs if run.record.is_native)
    for conditions in groups:
        points = _points(workload, conditions)
        _, *others = conditions  # the device is in the title
        yield Series(
            workload.title if len(groups) == 1 else f"{workload.title}, {', '.join(filter(None, others))}", points
        )


def _points(workload: WorkloadHistory, conditions: tuple[str | None, ...]) -> tuple[Point, ...]:
    alike = [(index, run.record) for index, run in enumerate(workload.runs) if run.conditions == conditions]
    first_ms = next(record.latency_ms or 1.0 for _, record in alike if record.is_native)
    return tuple(
        Point(
            float(index),
            record.latency_ms / first_ms,
            record.interval_ms.low / first_ms if record.interval_ms else None,
            record.interval_ms.high / first_ms if record.interval_ms else None,
            f"{record.timestamp[:16]}, sources {(record.solution_sha256 or 'unknown')[:6]}",
            bool(record.noisy),
        )
        for index, record in alike
        if record.is_native and record.latency_ms
    )
