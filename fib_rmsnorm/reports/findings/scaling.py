"""How latency grows with the work, without a model and with one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fib_rmsnorm.analysis.estimate import Estimate
from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.scaling import Fit
from fib_rmsnorm.reports.text.document import Doubt, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_bandwidth, format_bytes, format_latency


def describe_scaling(section: SectionFindings) -> Iterator[Part]:
    """Growth at both ends of the range, and the lines fitted over all of it."""
    if not section.fits:
        yield "Unknown: a line needs latencies of one Solution at four or more sizes."
        return
    axis = next((fit.axis for fit in section.fits if fit.axis), None)
    if growth := " ".join(_describe_growth(section)):
        yield growth
    yield (
        "A line fitted to each Solution, latency = floor + bytes / bandwidth, by its relative residuals, with 95%"
        " intervals. The crossover is where moving the bytes takes as long as the floor: below it more work costs"
        " little, above it the time grows in proportion."
    )
    yield Grid(
        (
            "solution",
            ">floor",
            ">95%",
            ">bandwidth",
            ">95%",
            f">crossover{f' {axis}' if axis else ''}",
            ">95%",
            ">worst miss",
            "at",
        ),
        [
            (
                fit.solution,
                format_latency(fit.floor_ms.value),
                _span(fit.floor_ms, 1e3, "us"),
                format_bandwidth(fit.bandwidth_gb_per_s.value),
                _span(fit.bandwidth_gb_per_s, 1, "GB/s"),
                *_crossover(fit),
                f"{fit.worst_miss:+.0%}",
                fit.worst.axes_text,
            )
            for fit in section.fits
        ],
    )
    yield from _describe_misfits(section)


def _describe_growth(section: SectionFindings) -> Iterator[str]:
    """How latency grows from one end of the range to the other."""
    roofs = [each for each in section.roofline.workloads if each.best is not None]
    for kind, chosen in (
        ("bound by launch", [each for each in roofs if each.bound == "launch"]),
        ("beyond L2", [each for each in roofs if each.fits_l2 is False]),
    ):
        if len(chosen) < 2:
            continue
        first, last = chosen[0], chosen[-1]
        if first.best and last.best and first.bytes_moved and last.bytes_moved:
            work = last.bytes_moved / first.bytes_moved
            longer = (last.best.record.latency_ms or 0.0) / (first.best.record.latency_ms or 1.0)
            yield (
                f"Where it is {kind}, from {first.title} to {last.title}, {work:.3g} times the bytes take the fastest"
                f" Solution {longer:.3g} times as long."
            )


def _describe_misfits(section: SectionFindings) -> Iterator[Part]:
    peak = section.roofline.peak
    beyond = [fit.solution for fit in section.fits if peak and fit.bandwidth_gb_per_s.value > peak.gb_per_s]
    if beyond:
        yield Doubt(f"{', '.join(beyond)}: the line's bandwidth is above the device's peak, so it is not the memory's.")
    if any(abs(fit.worst_miss) > 0.05 for fit in section.fits):
        yield (
            "Where the line misses by more than 5%, it is too simple: launch and transfer overlap in the middle, so"
            " kernels are faster there than their sum; what fits in a cache is moved faster than the memory takes it,"
            " which can make the line's bandwidth higher than the largest Workloads reach."
        )


def _crossover(fit: Fit) -> tuple[str, str]:
    if fit.crossover is None:
        return format_bytes(fit.crossover_bytes.value), (
            f"{format_bytes(fit.crossover_bytes.low)} to {format_bytes(fit.crossover_bytes.high)}"
        )
    if fit.crossover.value < 1:
        return "below 1", _span(fit.crossover, 1, "")
    return f"{fit.crossover.value:.0f}", _span(fit.crossover, 1, "")


def _span(estimate: Estimate, scale: float, unit: str) -> str:
    low, high = max(0.0, estimate.low * scale), estimate.high * scale
    digits = 2 if high < 10 else 1 if high < 100 else 0
    top = f"{high:.{digits}f}" if math.isfinite(high) else "any"
    return f"{low:.{digits}f} to {top}{f' {unit}' if unit else ''}"
