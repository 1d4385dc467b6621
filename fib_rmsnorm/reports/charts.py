"""Findings as charts that know nothing of how they are drawn: plots (files) and the page (a browser) draw the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.record import Record
from fib_rmsnorm.analysis.results import Result, WorkloadResults
from fib_rmsnorm.analysis.ulp import UlpHistogram

Kind = Literal["line", "limit", "bars", "spread"]
Scale = Literal["log", "linear"]


@dataclass(frozen=True)
class Point:
    """A point, with a range where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    """What it is, in words: `batch=8`."""


@dataclass(frozen=True)
class Series:
    """Points that belong together. A limit is drawn without markers, bars stand on their x, a spread is a range."""

    name: str
    points: tuple[Point, ...]
    kind: Kind = "line"


@dataclass(frozen=True)
class Chart:
    """A chart; with `categories`, x counts them."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "log"
    y_scale: Scale = "log"
    categories: tuple[str, ...] = ()
    note: str = ""


def make_charts(findings: SectionFindings, ulps: Sequence[UlpHistogram]) -> list[Chart]:
    """All charts of a section that have something to show."""
    charts = [
        _latency_chart(findings),
        _bandwidth_chart(findings),
        _scaling_chart(findings),
        _roofline_chart(findings),
        _spread_chart(findings),
        _ulp_chart(ulps),
    ]
    return [chart for chart in charts if chart is not None]


@dataclass(frozen=True)
class _Axis:
    """What the Workloads are laid out along: the axis that varies, or their bytes."""

    label: str
    values: dict[str, float]
    """By Workload."""


def _axis(findings: SectionFindings) -> _Axis | None:
    workloads = findings.results.workloads
    axes = {each.workload: each.results[0].record.axes for each in workloads}
    varying = [
        name for name in next(iter(axes.values()), {}) if len({sizes.get(name) for sizes in axes.values()}) == len(axes)
    ]
    if len(varying) == 1 or (len(axes) == 1 and varying):
        return _Axis(varying[0], {workload: sizes[varying[0]] for workload, sizes in axes.items()})
    moved = {each.workload: _bytes(each) for each in workloads}
    known = {workload: number for workload, number in moved.items() if number}
    return _Axis("bytes moved", known) if known else None


def _bytes(workload: WorkloadResults) -> float:
    return next((float(r.record.bytes_moved) for r in workload.results if r.record.bytes_moved), 0.0)


def _along(findings: SectionFindings, axis: _Axis) -> Iterator[tuple[float, WorkloadResults]]:
    for each in findings.results.workloads:
        if each.workload in axis.values:
            yield axis.values[each.workload], each


def _by_solution(findings: SectionFindings, axis: _Axis) -> dict[str, list[tuple[float, str, Result]]]:
    """The native results of each Solution along the axis: suspect ones too, which their notes say."""
    groups: dict[str, list[tuple[float, str, Result]]] = {}
    for x, each in _along(findings, axis):
        for result in each.results:
            if result.record.is_native:
                doubt = ", SUSPECT" if result.record.suspect else ""
                groups.setdefault(result.label, []).append((x, f"{each.title}{doubt}", result))
    return dict(sorted(groups.items()))


def _latency_chart(findings: SectionFindings) -> Chart | None:
    axis = _axis(findings)
    if axis is None:
        return None
    series = [
        Series(
            label,
            tuple(
                Point(x, _us(r.record.latency_ms), _us(r.record.latency_low_ms), _us(r.record.latency_high_ms), note)
                for x, note, r in members
            ),
        )
        for label, members in _by_solution(findings, axis).items()
    ]
    if not series:
        return None
    along = list(_along(findings, axis))
    series += _limits(
        ("a copy of the same bytes", [(x, _us(each.copy_ms)) for x, each in along if each.copy_ms]),
        ("an empty kernel", [(x, _us(each.empty_ms)) for x, each in along if each.empty_ms]),
        ("the bytes at the peak", _at_the_peak(findings, along)),
    )
    return Chart("latency", f"Latency by {axis.label}", axis.label, "median latency (us)", tuple(series))


def _limits(*lines: tuple[str, list[tuple[float, float]]]) -> list[Series]:
    return [Series(name, tuple(Point(x, y) for x, y in points), "limit") for name, points in lines if points]


def _at_the_peak(
    findings: SectionFindings, along: Sequence[tuple[float, WorkloadResults]]
) -> list[tuple[float, float]]:
    peak, floor = findings.roofline.peak, min((each.empty_ms or 0.0 for _, each in along), default=0.0)
    if peak is None:
        return []
    times = [(x, _bytes(each) / peak.gb_per_s / 1e6) for x, each in along if _bytes(each)]
    return [(x, 1e3 * time_ms) for x, time_ms in times if time_ms >= floor / 2]


def _bandwidth_chart(findings: SectionFindings) -> Chart | None:
    axis = _axis(findings)
    if axis is None:
        return None
    series = []
    for label, members in _by_solution(findings, axis).items():
        points = tuple(Point(x, r.bandwidth_gb_per_s, note=note) for x, note, r in members if r.bandwidth_gb_per_s)
        if points:
            series.append(Series(label, points))
    if not series:
        return None
    along = list(_along(findings, axis))
    peak = findings.roofline.peak
    series += _limits(
        (
            "a copy of the same bytes",
            [(x, _bytes(each) / each.copy_ms / 1e6) for x, each in along if each.copy_ms and _bytes(each)],
        ),
        ("the device's peak", [(x, peak.gb_per_s) for x, _ in (along[0], along[-1])] if peak else []),
    )
    return Chart("bandwidth", f"Bandwidth by {axis.label}", axis.label, "bandwidth (GB/s)", tuple(series))


def _scaling_chart(findings: SectionFindings) -> Chart | None:
    if not findings.fits:
        return None
    series = []
    groups: dict[str, list[Record]] = {}
    for result in findings.results.results:
        if result.record.is_trusted and result.record.bytes_moved:
            groups.setdefault(result.record.solution, []).append(result.record)
    for fit in sorted(findings.fits, key=lambda each: each.solution):
        points = [(float(each.bytes_moved or 0), each) for each in groups.get(fit.solution, [])]
        series.append(
            Series(
                fit.solution,
                tuple(
                    Point(moved, _ratio(each.latency_ms, fit.latency_ms(moved)), note=each.axes_text)
                    for moved, each in sorted(points, key=lambda pair: pair[0])
                ),
            )
        )
    ends = [point.x for each in series for point in each.points]
    series += _limits(("floor + bytes / bandwidth", [(min(ends), 1.0), (max(ends), 1.0)]))
    device = findings.roofline.device
    if device is not None and min(ends) < device.l2_bytes < max(ends):
        values = [point.y for each in series for point in each.points]
        series += _limits(("L2 is full", [(device.l2_bytes, min(values)), (device.l2_bytes, max(values))]))
    return Chart(
        "scaling",
        "Latency against its fit, floor + bytes / bandwidth",
        "bytes moved",
        "latency / fit",
        tuple(series),
        y_scale="linear",
        note="Above 1 a kernel takes longer than the line says, below it less.",
    )


def _roofline_chart(findings: SectionFindings) -> Chart | None:
    roofline = findings.roofline
    if roofline.ridge is None or roofline.peak is None or roofline.flops_per_s is None:
        return None
    roofs = {each.title: each for each in roofline.workloads}
    groups: dict[str, list[Point]] = {}
    for each in findings.results.workloads:
        roof = roofs[each.title]
        for result in each.results:
            if roof.flops and roof.intensity and result.record.is_trusted and result.record.latency_ms:
                rate = roof.flops / result.record.latency_ms / 1e6
                groups.setdefault(result.label, []).append(Point(roof.intensity, rate, note=each.title))
    if not groups:
        return None
    series = [Series(label, tuple(points)) for label, points in sorted(groups.items())]
    low = min(point.x for points in groups.values() for point in points) / 4
    high = roofline.ridge * 4
    bandwidth = roofline.peak.gb_per_s
    series += _limits(
        (
            "roof: memory, then arithmetic",
            [(low, low * bandwidth), (roofline.ridge, roofline.flops_per_s / 1e9), (high, roofline.flops_per_s / 1e9)],
        ),
        ("ridge", [(roofline.ridge, low * bandwidth / 10), (roofline.ridge, roofline.flops_per_s / 1e9)]),
    )
    return Chart("roofline", "Roofline", "FLOP per byte", "GFLOP/s", tuple(series))


def _spread_chart(findings: SectionFindings) -> Chart | None:
    """From 5% to 95% of the calls, relative to the median: how steady a kernel is."""
    axis = _axis(findings)
    titles = [each.title for each in findings.results.workloads]
    if axis is not None:
        titles = [title.removeprefix(f"{axis.label}=") for title in titles]
    groups: dict[str, list[Point]] = {}
    for index, each in enumerate(findings.results.workloads):
        for result in each.results:
            record = result.record
            if record.is_native and record.latency_p5_ms and record.latency_p95_ms:
                low, high = (
                    _ratio(bound, record.latency_ms) for bound in (record.latency_p5_ms, record.latency_p95_ms)
                )
                note = f"{each.title}: {record.samples or 'unknown'} calls"
                groups.setdefault(result.label, []).append(Point(index, 1.0, low, high, note))
    if not groups:
        return None
    return Chart(
        "spread",
        "Distribution of the calls: 5% to 95% of them, relative to the median",
        axis.label if axis else "",
        "latency / median",
        tuple(Series(label, tuple(points), "spread") for label, points in sorted(groups.items())),
        x_scale="linear",
        y_scale="linear",
        categories=tuple(titles),
    )


def _ulp_chart(ulps: Sequence[UlpHistogram]) -> Chart | None:
    """How many elements lie how far from the exact answer, over all cases that a Solution was judged on."""
    if not ulps:
        return None
    buckets = list(dict.fromkeys(bucket for each in ulps for bucket in each.counts))
    while len(buckets) > 1 and not any(each.counts.get(buckets[-1]) for each in ulps):
        buckets.pop()
    series = [
        Series(
            each.name,
            tuple(
                Point(
                    index, each.counts.get(bucket, 0) / each.elements, note=f"{each.counts.get(bucket, 0):,} elements"
                )
                for index, bucket in enumerate(buckets)
                if each.counts.get(bucket)
            ),
            "bars",
        )
        for each in ulps
    ]
    return Chart(
        "ulp",
        "Distance from the exact answer, over all Workloads and hard cases",
        "units in the last place",
        "share of the elements",
        tuple(series),
        x_scale="linear",
        categories=tuple(buckets),
    )


def _us(latency_ms: float | None) -> float:
    return 1e3 * (latency_ms or 0.0)


def _ratio(latency_ms: float | None, other_ms: float | None) -> float:
    return (latency_ms or 0.0) / other_ms if other_ms else 0.0
