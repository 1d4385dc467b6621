"""Share of the copy, latency and bandwidth along the Workloads, beside what bounds them."""

from __future__ import annotations

from collections.abc import Sequence

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.results import WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.charts.axis import along_axis, by_solution, bytes_of, ends_of, find_axis
from fib_rmsnorm.reports.charts.chart import Chart, Point, Series, limits

_WIDE = 20
"""Shares that differ by more than this factor need a logarithmic axis."""


def copy_chart(findings: SectionFindings) -> Chart | None:
    """The copy's time as a share of the kernel's, in percent."""
    axis = find_axis(findings)
    if axis is None:
        return None
    series = []
    for label, members in by_solution(findings, axis).items():
        points = tuple(_copy_point(x, note, each.record) for x, note, each in members if each.record.percent_of_copy)
        if points:
            series.append(Series(label, points))
    if not series:
        return None
    xs, shares = zip(*((point.x, point.y) for each in series for point in each.points), strict=True)
    series += limits(("a copy of the same bytes", [(x, 100.0) for x in sorted({min(xs), max(xs)})]))
    return Chart(
        "copy",
        f"% of copy by {axis.label}",
        axis.label,
        "% of copy",
        tuple(series),
        y_scale="log" if max(shares) > _WIDE * min(shares) else "linear",
        note="The time of the fastest copy of the same bytes, divided by the kernel's. A hollow mark is noisy.",
    )


def _copy_point(x: float, note: str, record: TraceRecord) -> Point:
    share, latency_ms = record.percent_of_copy or 0.0, record.latency_ms or 0.0
    low_ms, high_ms = ends_of(record)
    return Point(
        x,
        share,
        share * latency_ms / high_ms if high_ms else None,
        share * latency_ms / low_ms if low_ms else None,
        note,
        bool(record.noisy),
    )


def latency_chart(findings: SectionFindings) -> Chart | None:
    """Latency, beside the copy, an empty kernel and the bytes at the peak."""
    axis = find_axis(findings)
    if axis is None:
        return None
    series = [
        Series(label, tuple(_latency_point(x, note, result.record) for x, note, result in members))
        for label, members in by_solution(findings, axis).items()
    ]
    if not series:
        return None
    along = list(along_axis(findings, axis))
    series += limits(
        (
            "a copy of the same bytes",
            [(x, _us(each.copy.ms)) for x, each in along if each.copy],
        ),
        ("an empty kernel", [(x, _us(each.empty_ms)) for x, each in along if each.empty_ms]),
        ("the bytes at the peak", _at_the_peak(findings, along)),
    )
    return Chart("latency", f"Latency by {axis.label}", axis.label, "median latency (us)", tuple(series))


def _at_the_peak(
    findings: SectionFindings, along: Sequence[tuple[float, WorkloadResults]]
) -> list[tuple[float, float]]:
    peak, floor = findings.roofline.peak, min((each.empty_ms or 0.0 for _, each in along), default=0.0)
    if peak is None:
        return []
    times = [(x, bytes_of(each) / peak.gb_per_s / 1e6) for x, each in along if bytes_of(each)]
    return [(x, 1e3 * time_ms) for x, time_ms in times if time_ms >= floor / 2]


def bandwidth_chart(findings: SectionFindings) -> Chart | None:
    """Bandwidth, beside the copy's and the peak."""
    axis = find_axis(findings)
    if axis is None:
        return None
    series = []
    for label, members in by_solution(findings, axis).items():
        points = tuple(
            Point(x, r.bandwidth_gb_per_s, note=note, noisy=bool(r.record.noisy))
            for x, note, r in members
            if r.bandwidth_gb_per_s
        )
        if points:
            series.append(Series(label, points))
    if not series:
        return None
    along = list(along_axis(findings, axis))
    peak = findings.roofline.peak
    series += limits(
        (
            "a copy of the same bytes",
            [(x, bytes_of(each) / each.copy.ms / 1e6) for x, each in along if each.copy and bytes_of(each)],
        ),
        ("the device's peak", [(x, peak.gb_per_s) for x, _ in (along[0], along[-1])] if peak else []),
    )
    return Chart("bandwidth", f"Bandwidth by {axis.label}", axis.label, "bandwidth (GB/s)", tuple(series))


def _latency_point(x: float, note: str, record: TraceRecord) -> Point:
    low_ms, high_ms = ends_of(record)
    return Point(x, _us(record.latency_ms), _us(low_ms), _us(high_ms), note, bool(record.noisy))


def _us(latency_ms: float | None) -> float:
    return 1e3 * (latency_ms or 0.0)
