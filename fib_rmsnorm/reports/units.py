"""Numbers as people read them."""

from __future__ import annotations


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
