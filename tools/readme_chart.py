"""The README's chart, drawn by matplotlib: the lines of the page's chart of latencies, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.analysis.results import SectionResults
from fib_rmsnorm.analysis.roofline import analyze_section
from fib_rmsnorm.reports.charts import Chart, Series, make_charts, number_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The first eight are from Okabe and Ito 2008, "Color Universal Design": told apart by colour-blind readers too. With
# markers and dashes, kernels are told apart in grey as well.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#666666"),
    *("#6a3d9a", "#8a9a00", "#b00020"),
)
_MARKERS = "osD^vPX*<>h"
_DASHES = ("-", (0, (7, 1.5)), (0, (2.5, 1.5)), (0, (7, 1.5, 1.5, 1.5)))
_LIMIT_DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2), (8, 3))


def draw(section: SectionResults, path: Path) -> None:
    """Draw the latencies of a section as an SVG; the same latencies give the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    charts = make_charts(analyze_section(section, None))
    (chart,) = (each for each in charts if each.name == "latency")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fib-rmsnorm", "font.size": 9}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        _draw(chart, figure.add_subplot(), number_series(charts))
        figure.savefig(path, dpi=150, metadata={"Date": None})


def _draw(chart: Chart, axes: Axes, numbers: Mapping[str, int]) -> None:
    limit_dashes = iter(_LIMIT_DASHES)
    for each in chart.series:
        if each.is_limit:
            xs, ys = [point.x for point in each.points], [point.y for point in each.points]
            axes.plot(xs, ys, color="#333333", linewidth=1, dashes=next(limit_dashes), label=each.name)
        else:
            _draw_line(axes, each, numbers[each.name])
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    axes.set_yscale(chart.y_scale)
    axes.set_xscale("log", base=2)
    if chart.y_scale == "log":
        axes.yaxis.set_major_formatter(lambda value, _: _short_number(value))
    axes.xaxis.set_major_formatter(lambda value, _: _short_number(value))
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    # Beside the chart, in the order in which lines end at its right edge.
    names = [each.name for each in sorted(chart.series, key=lambda each: -each.points[-1].y)]
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
    axes.plot(xs, ys, linewidth=1.3, linestyle=_DASHES[number % len(_DASHES)], label=series.name, **style)
    noisy = [point for point in series.points if point.noisy]
    hollow: dict[str, Any] = {"linestyle": "", "markerfacecolor": "white"}
    axes.plot([point.x for point in noisy], [point.y for point in noisy], **hollow, **style)
    ranges = [point for point in series.points if point.low and point.high]
    lows, highs = [point.low or 0.0 for point in ranges], [point.high or 0.0 for point in ranges]
    axes.vlines([point.x for point in ranges], lows, highs, color=colour, linewidth=1.3)
