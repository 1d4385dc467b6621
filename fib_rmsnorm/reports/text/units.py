"""Numbers as people read them, and the fields of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.difference import Estimate

_SMALL = 0.02
_FACTOR = 4.0  # "+3577.2%" has to be read twice, "36.8x" does not


def format_latency(latency_ms: float) -> str:
    """A latency with three significant digits and its unit: `1.66 us`, `20.6 us`, `1.23 ms`, `2.1 s`."""
    for limit, scale, unit in ((1.0, 1e3, "us"), (1e3, 1.0, "ms")):
        if latency_ms < limit:
            return f"{_three_digits(latency_ms * scale)} {unit}"
    return f"{_three_digits(latency_ms / 1e3)} s"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def format_either_side(estimate: Estimate | None) -> str:
    """The text beside a cell's number: `±9%`; empty up to 2%; `up to 27.7 us` where only an upper bound is known."""
    if estimate is None or estimate.half_width <= _SMALL:
        return ""
    if not estimate.is_bounded:
        upper = f"up to {format_latency(estimate.high)}" if estimate.high > estimate.value else "or less"
        return "±?" if estimate.low or math.isinf(estimate.high) else upper
    return f"±{estimate.half_width:.0%}"


def format_bytes(number: float) -> str:
    """A size with three significant digits: `512 B`, `16.4 kB`, `151 GB` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.0f} B" if unit == "B" else f"{_three_digits(number)} {unit}"


def format_bandwidth(gb_per_s: float) -> str:
    """A bandwidth with three significant digits: `15.1 GB/s`, `3352 GB/s`."""
    return f"{_three_digits(gb_per_s)} GB/s"


def format_ratio(ratio: float) -> str:
    """How many times as fast, with two or three significant digits: `0.0034x`, `0.97x`, `2.00x`, `45.8x`."""
    return f"{ratio:.2g}x" if ratio < 0.0995 else f"{_three_digits(ratio)}x"


def format_change(ratio: float) -> str:
    """New over old as a relative change: `-27.8%`, `+10.0%`; from four times on as a factor: `37.8x`."""
    return format_ratio(ratio) if ratio >= _FACTOR else f"{ratio - 1:+.1%}"


def format_changes(low: float, high: float) -> str:
    """The ends of an interval of such ratios, in one form: `-30.4% to -25.0%`, `0.016x to 540x`."""
    if not math.isfinite(high):
        return "any factor"
    form = format_ratio if high >= _FACTOR else format_change
    return f"{form(low)} to {form(high)}"


def format_percent(percent: float) -> str:
    """A percentage: `0.45%`, `7.2%`, `72%`."""
    if percent >= 9.95:
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent >= 0.995 else f"{percent:.2f}%"


def format_apart(share: float) -> str:
    """How far two numbers could be apart: `12%`, `3.13x`."""
    if not math.isfinite(share):
        return "any factor"
    if share >= 1:
        return format_ratio(1 + share)
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def count(number: int, noun: str) -> str:
    """A number and its noun: `1 Trace`, `2 Traces`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_range(values: Iterable[float], form: Callable[[float], str]) -> str:
    """The least and the largest: `86% to 100%`; once where they read alike."""
    known = sorted(values)
    return " to ".join(dict.fromkeys((form(known[0]), form(known[-1]))))


def join_names(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def assignments(values: Mapping[str, object]) -> str:
    """Named values: `batch=8, eps=1e-06`."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def pick(record: object, *names: str, **renamed: str) -> dict[str, Any]:
    """The named fields and properties of a record, then those that get another name; of None, each is None."""
    sources = {name: name for name in names} | renamed
    return {name: None if record is None else getattr(record, source) for name, source in sources.items()}
