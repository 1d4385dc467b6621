"""Findings as charts, which the page draws."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from fib_rmsnorm.analysis.difference import find_interval
from fib_rmsnorm.analysis.results import Result
from fib_rmsnorm.analysis.roofline import SectionFindings

_WIDE = 20
"""Shares that differ by more than this factor need a logarithmic axis."""


@dataclass(frozen=True)
class Point:
    """A point, with a range where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Its title: `batch=8`."""
    noisy: bool = False
    """Drawn hollow."""


@dataclass(frozen=True)
class Series:
    """Points that belong together. A limit bounds the others, and is drawn without markers."""

    name: str
    points: tuple[Point, ...]
    is_limit: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart, with a logarithmic x axis."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    y_scale: Literal["log", "linear"] = "log"
    note: str = ""


_Range = tuple[float | None, float | None, float | None]
"""A value and the ends of its interval; the value is None where there is nothing to draw."""


def make_charts(findings: SectionFindings) -> list[Chart]:
    """All charts of a section that have something to show."""
    axis = _find_axis(findings)
    charts = [_copy_chart(findings, *axis), _latency_chart(findings, *axis)] if axis else []
    return [chart for chart in charts if any(not each.is_limit for each in chart.series)]


def number_series(charts: Iterable[Chart]) -> dict[str, int]:
    """A number for each name, by which a kernel looks the same in every chart; limits have none."""
    names = {each.name for chart in charts for each in chart.series if not each.is_limit}
    return {name: number for number, name in enumerate(sorted(names))}


def _find_axis(findings: SectionFindings) -> tuple[str, dict[str, float]] | None:
    """The only axis that differs between all Workloads, else their bytes; None if those are unknown."""
    axes = {each.workload: each.results[0].record.axes for each in findings.results.workloads}
    shared = set.intersection(*(set(sizes) for sizes in axes.values()))
    columns = {name: [sizes[name] for sizes in axes.values()] for name in sorted(shared)}
    # No two may be the same, and all have to stand on a logarithmic axis.
    varying = [name for name, values in columns.items() if len({*values}) == len(values) and min(values) > 0]
    if len(varying) == 1:
        return varying[0], {workload: sizes[varying[0]] for workload, sizes in axes.items()}
    known = {each.results.workload: float(each.bytes_moved) for each in findings.workloads if each.bytes_moved}
    return ("bytes moved", known) if known else None


def _lines(findings: SectionFindings, xs: Mapping[str, float], measure: Callable[[Result], _Range]) -> list[Series]:
    """A line for each Solution through its native results on the Workloads in `xs`; noisy ones say so."""
    groups: dict[str, list[Point]] = {}
    for each in findings.results.workloads:
        for result in each.results if each.workload in xs else ():
            value, low, high = measure(result)
            if result.record.is_native and value:
                noisy = bool(result.record.noisy)
                point = Point(xs[each.workload], value, low, high, f"{each.title}{', noisy' * noisy}", noisy)
                groups.setdefault(result.label, []).append(point)
    return [Series(label, tuple(points)) for label, points in sorted(groups.items())]


def _limits(lines: Mapping[str, Iterable[tuple[float, float]]]) -> list[Series]:
    """Lines without markers; those without points are left out."""
    made = [Series(name, tuple(Point(x, y) for x, y in points), is_limit=True) for name, points in lines.items()]
    return [each for each in made if each.points]


def _copy_chart(findings: SectionFindings, axis: str, xs: Mapping[str, float]) -> Chart:
    """The copy's time as a share of the kernel's, in percent."""

    def measure(result: Result) -> _Range:
        share = result.share_of_copy
        ends = (share.low, share.high if isfinite(share.high) else None) if share else (None, None)
        return (result.record.percent_of_copy, *ends)

    series = _lines(findings, xs, measure)
    points = [point for each in series for point in each.points]
    ends = sorted({choose(point.x for point in points) for choose in (min, max)}) if points else []
    shares = [point.y for point in points] or [1.0]
    return Chart(
        "copy",
        f"% of copy by {axis}",
        axis,
        "% of copy",
        (*series, *_limits({"a copy of the same bytes": [(x, 100.0) for x in ends]})),
        y_scale="log" if max(shares) > _WIDE * min(shares) else "linear",
        note="The time of the fastest copy of the same bytes, divided by the kernel's. A hollow mark is noisy.",
    )


def _latency_chart(findings: SectionFindings, axis: str, xs: Mapping[str, float]) -> Chart:
    """Latency, beside the copy, an empty kernel and the bytes at the peak."""

    def measure(result: Result) -> _Range:
        interval, value = find_interval(result.record), result.record.latency_ms
        ends = (1e3 * interval.low, 1e3 * interval.high) if interval else (None, None)
        return (1e3 * value if value else None, *ends)

    along = [(xs[each.results.workload], each) for each in findings.workloads if each.results.workload in xs]
    floor = min((each.results.empty_ms or 0.0 for _, each in along), default=0.0)
    times = {
        "a copy of the same bytes": [(x, each.results.copy_ms) for x, each in along],
        "an empty kernel": [(x, each.results.empty_ms) for x, each in along],
        "the bytes at the peak": [(x, each.memory_ms) for x, each in along if (each.memory_ms or 0.0) >= floor / 2],
    }
    limits = {name: [(x, 1e3 * time_ms) for x, time_ms in points if time_ms] for name, points in times.items()}
    series = (*_lines(findings, xs, measure), *_limits(limits))
    return Chart("latency", f"Latency by {axis}", axis, "median latency (us)", series)
