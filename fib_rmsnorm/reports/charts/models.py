"""Measurements against what a model says: the fit of latency over bytes, and the roofline."""

from __future__ import annotations

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.charts.chart import Chart, Point, Series, limits


def scaling_chart(findings: SectionFindings) -> Chart | None:
    """How far each latency lies from the line fitted to its Solution."""
    if not findings.fits:
        return None
    series = []
    groups: dict[str, list[TraceRecord]] = {}
    for result in findings.results.results:
        if result.record.is_native and result.record.bytes_moved:
            groups.setdefault(result.record.solution, []).append(result.record)
    for fit in sorted(findings.fits, key=lambda each: each.solution):
        points = [(float(each.bytes_moved or 0), each) for each in groups.get(fit.solution, [])]
        series.append(
            Series(
                fit.solution,
                tuple(
                    Point(moved, (each.latency_ms or 0.0) / fit.latency_ms(moved), note=each.axes_text)
                    for moved, each in sorted(points, key=lambda pair: pair[0])
                ),
            )
        )
    ends = [point.x for each in series for point in each.points]
    series += limits(("floor + bytes / bandwidth", [(min(ends), 1.0), (max(ends), 1.0)]))
    device = findings.roofline.device
    if device is not None and min(ends) < device.l2_bytes < max(ends):
        values = [point.y for each in series for point in each.points]
        series += limits(("L2 is full", [(device.l2_bytes, min(values)), (device.l2_bytes, max(values))]))
    return Chart(
        "scaling",
        "Latency against its fit, floor + bytes / bandwidth",
        "bytes moved",
        "latency / fit",
        tuple(series),
        y_scale="linear",
        note="Above 1, a kernel takes longer than the fitted line predicts; below 1, it takes less.",
    )


def roofline_chart(findings: SectionFindings) -> Chart | None:
    """Operations a second by operations a byte, under the device's roof."""
    roofline = findings.roofline
    if roofline.ridge is None or roofline.peak is None or roofline.flops_per_s is None:
        return None
    roofs = {each.title: each for each in roofline.workloads}
    groups: dict[str, list[Point]] = {}
    for each in findings.results.workloads:
        roof = roofs[each.title]
        for result in each.results:
            if roof.flops and roof.intensity and result.record.is_native and result.record.latency_ms:
                rate = roof.flops / result.record.latency_ms / 1e6
                groups.setdefault(result.label, []).append(Point(roof.intensity, rate, note=each.title))
    if not groups:
        return None
    series = [Series(label, tuple(points)) for label, points in sorted(groups.items())]
    low = min(point.x for points in groups.values() for point in points) / 4
    high = roofline.ridge * 4
    bandwidth = roofline.peak.gb_per_s
    series += limits(
        (
            "roof: memory, then arithmetic",
            [(low, low * bandwidth), (roofline.ridge, roofline.flops_per_s / 1e9), (high, roofline.flops_per_s / 1e9)],
        ),
        ("ridge", [(roofline.ridge, low * bandwidth / 10), (roofline.ridge, roofline.flops_per_s / 1e9)]),
    )
    return Chart("roofline", "Roofline", "FLOP per byte", "GFLOP/s", tuple(series))
