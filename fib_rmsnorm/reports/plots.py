"""Charts as files, PNG and SVG, by matplotlib."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.errors import EnvironmentMissingError
from fib_rmsnorm.reports.charts import Chart, Series
from fib_rmsnorm.reports.text.control_characters import one_line

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
_LONGEST_NAME = 160
_NOT_IN_XML = re.compile("[\ufffe\uffff]")
_LIMIT_DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2), (8, 3))


def draw(charts: Iterable[Chart], folder: Path, title: str, numbers: Mapping[str, int]) -> Iterator[Path]:
    """Write each chart as `<title>-<chart>.png` and `.svg`; yield the paths as they are written.

    The number of a series decides how it looks. Raises EnvironmentMissingError without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentMissingError("plots need matplotlib: pip install 'fib-rmsnorm[plots]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    # Text stays text, and the same charts give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fib-rmsnorm", "font.size": 9}):
        for chart in charts:
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
