"""A chart's data, independent of how it is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

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
    noisy: bool = False
    """Drawn hollow."""


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


def number_series(charts: Iterable[Chart]) -> dict[str, int]:
    """A number for each name, by which a kernel looks the same in every chart; limits have none."""
    names = {each.name for chart in charts for each in chart.series if each.kind != "limit"}
    return {name: number for number, name in enumerate(sorted(names))}


def limits(*lines: tuple[str, list[tuple[float, float]]]) -> list[Series]:
    """Lines without markers; those without points are left out."""
    return [Series(name, tuple(Point(x, y) for x, y in points), "limit") for name, points in lines if points]
