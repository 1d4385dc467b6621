"""Findings as charts, which the page draws too, and as files, PNG and SVG, by matplotlib."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fib_rmsnorm.analysis.results import Result, WorkloadResults
from fib_rmsnorm.analysis.roofline import SectionFindings
from fib_rmsnorm.errors import EnvironmentMissingError
from fib_rmsnorm.reports.text.control_characters import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """What it is, in words: `batch=8`."""
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
    workloads = findings.results.workloads
    axes = {each.workload: each.results[0].record.axes for each in workloads}
    shared = set.intersection(*(set(sizes) for sizes in axes.values()))
    varying = [name for name in sorted(shared) if _tells_apart([sizes[name] for sizes in axes.values()])]
    if len(varying) == 1:
        return varying[0], {workload: sizes[varying[0]] for workload, sizes in axes.items()}
    known = {each.workload: number for each in workloads if (number := _bytes_of(each))}
    return ("bytes moved", known) if known else None


def _tells_apart(values: list[int]) -> bool:
    """Whether no two are the same, and all can stand on a logarithmic axis."""
    return len(set(values)) == len(values) and all(value > 0 for value in values)


def _bytes_of(workload: WorkloadResults) -> float:
    """The bytes of a Workload; 0 if no Trace has them."""
    return next((float(r.record.bytes_moved) for r in workload.results if r.record.bytes_moved), 0.0)


def _lines(
    findings: SectionFindings, xs: Mapping[str, float], measure: Callable[[Result], _Range], *, scale: float = 1.0
) -> list[Series]:
    """A line for each Solution through its native results on the Workloads in `xs`; noisy ones say so."""
    groups: dict[str, list[Point]] = {}
    for each in findings.results.workloads:
        for result in each.results if each.workload in xs else ():
            value, low, high = measure(result)
            if result.record.is_native and value:
                noisy = bool(result.record.noisy)
                low, high = (end * scale if end is not None else None for end in (low, high))
                point = Point(xs[each.workload], value * scale, low, high, f"{each.title}{', noisy' * noisy}", noisy)
                groups.setdefault(result.label, []).append(point)
    return [Series(label, tuple(points)) for label, points in sorted(groups.items())]


def _limits(lines: Mapping[str, Iterable[tuple[float, float]]]) -> list[Series]:
    """Lines without markers; those without points are left out."""
    made = [Series(name, tuple(Point(x, y) for x, y in points), is_limit=True) for name, points in lines.items()]
    return [each for each in made if each.points]


def _copy_chart(findings: SectionFindings, axis: str, xs: Mapping[str, float]) -> Chart:
    """The copy's time as a share of the kernel's, in percent."""

    def measure(result: Result) -> _Range:
        share, record = result.record.percent_of_copy, result.record
        if not share or not record.latency_ms or not result.interval_ms:
            return share, None, None
        low_ms, high_ms = result.interval_ms.low, result.interval_ms.high
        scaled = share * record.latency_ms
        return share, scaled / high_ms, scaled / low_ms if low_ms else None

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
        interval = result.interval_ms
        return (result.record.latency_ms, *((interval.low, interval.high) if interval else (None, None)))

    along = [(xs[each.workload], each) for each in findings.results.workloads if each.workload in xs]
    peak, floor = findings.peak, min((each.empty_ms or 0.0 for _, each in along), default=0.0)
    least = [(x, _bytes_of(each) / peak.gb_per_s / 1e6) for x, each in along] if peak else []
    limits = {
        "a copy of the same bytes": [(x, 1e3 * each.copy.ms) for x, each in along if each.copy],
        "an empty kernel": [(x, 1e3 * each.empty_ms) for x, each in along if each.empty_ms],
        "the bytes at the peak": [(x, 1e3 * time_ms) for x, time_ms in least if time_ms and time_ms >= floor / 2],
    }
    series = (*_lines(findings, xs, measure, scale=1e3), *_limits(limits))
    return Chart("latency", f"Latency by {axis}", axis, "median latency (us)", series)


# The first eight are from Okabe and Ito 2008, "Color Universal Design": told apart by colour-blind readers too. With
# markers and dashes, kernels are told apart in grey as well.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#666666"),
    *("#6a3d9a", "#8a9a00", "#b00020"),
)
_MARKERS = "osD^vPX*<>h"
_DASHES = ("-", (0, (7, 1.5)), (0, (2.5, 1.5)), (0, (7, 1.5, 1.5, 1.5)))
_LONGEST_NAME = 160
_NOT_IN_XML = re.compile("[\ufffe\uffff]")
_LIMIT_DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2), (8, 3))


def draw(sections: Mapping[str, Sequence[Chart]], folder: Path) -> Iterator[Path]:
    """Write each chart of sections, by their titles, as `<title>-<chart>.png` and `.svg`; yield the paths as written.

    Raises EnvironmentMissingError without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentMissingError("plots need matplotlib: pip install 'fib-rmsnorm[plots]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    titled = [(title, chart) for title, charts in sections.items() for chart in charts]
    numbers = number_series(chart for _, chart in titled)
    # Text stays text, and the same charts give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fib-rmsnorm", "font.size": 9}):
        for title, chart in titled:
            figure = Figure(figsize=(9, 5), layout="constrained")
            _draw(chart, figure.add_subplot(), numbers)
            for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
                path = folder / f"{_file_name(title)}-{chart.name}{suffix}"
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Glyph")  # of another script: a box in a PNG, text in an SVG
                    figure.savefig(path, dpi=150, metadata=metadata)
                yield path


def _file_name(text: str) -> str:
    """A title without the characters that a file name should not have, and not longer than one may be."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _shown(text: str) -> str:
    """A name or a title of strangers, which matplotlib would read as mathematics, or leave out of a legend."""
    text = _NOT_IN_XML.sub("\ufffd", one_line(text)).replace("$", r"\$")
    return f" {text}" if not text or text.startswith("_") else text


def _draw(chart: Chart, axes: Axes, numbers: Mapping[str, int]) -> None:
    limit_dashes = iter(_LIMIT_DASHES)
    for each in chart.series:
        if each.is_limit:
            xs, ys = [point.x for point in each.points], [point.y for point in each.points]
            axes.plot(xs, ys, color="#333333", linewidth=1, dashes=next(limit_dashes), label=_shown(each.name))
        else:
            _draw_line(axes, each, numbers[each.name])
    axes.set(title=_shown(chart.title), xlabel=_shown(chart.x_label), ylabel=_shown(chart.y_label))
    axes.set_yscale(chart.y_scale)
    axes.set_xscale("log", base=2)
    if chart.y_scale == "log":
        axes.yaxis.set_major_formatter(lambda value, _: _short_number(value))
    axes.xaxis.set_major_formatter(lambda value, _: _short_number(value))
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    # Beside the chart, in the order in which lines end at its right edge.
    names = [_shown(each.name) for each in sorted(chart.series, key=lambda each: -each.points[-1].y)]
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    handles = [found[name] for name in names]
    axes.legend(handles, names, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.5)


def _short_number(value: float) -> str:
    """`512`, `4096`, `16.4k`, `1.07G`."""
    for scale, unit in ((1e9, "G"), (1e6, "M")):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}" if value < 1e5 else f"{value / 1e3:.3g}k"


def _draw_line(axes: Axes, series: Series, number: int) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    xs, ys = [point.x for point in series.points], [point.y for point in series.points]
    style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
    axes.plot(xs, ys, linewidth=1.3, linestyle=_DASHES[number % len(_DASHES)], label=_shown(series.name), **style)
    noisy = [point for point in series.points if point.noisy]
    hollow: dict[str, Any] = {"linestyle": "", "markerfacecolor": "white"}
    axes.plot([point.x for point in noisy], [point.y for point in noisy], **hollow, **style)
    ranges = [point for point in series.points if point.low and point.high]
    lows, highs = [point.low or 0.0 for point in ranges], [point.high or 0.0 for point in ranges]
    axes.vlines([point.x for point in ranges], lows, highs, color=colour, linewidth=1.3)
