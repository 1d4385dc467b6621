"""An analysis in prose and tables: four questions, answered from what was measured."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fib_rmsnorm.analysis.devices import Device
from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.roofline import Roofline, WorkloadRoof
from fib_rmsnorm.analysis.scaling import Fit
from fib_rmsnorm.analysis.statistics import Estimate
from fib_rmsnorm.reports.document import Doubt, Heading, Part
from fib_rmsnorm.reports.report import section_title
from fib_rmsnorm.reports.tables import Grid
from fib_rmsnorm.reports.units import format_bandwidth, format_bytes, format_latency, format_percent


def describe_findings(sections: Sequence[SectionFindings]) -> Iterator[Part]:
    """The four questions for each section."""
    for section in sections:
        yield Heading(section_title(section.results))
        yield from describe_section(section)


def describe_section(section: SectionFindings) -> Iterator[Part]:
    """The four questions, without the title."""
    yield Heading("What is the arithmetic intensity?", 2)
    yield from _describe_intensity(section.roofline)
    yield Heading("Is it compute-bound or memory-bound?", 2)
    yield from _describe_bounds(section.roofline)
    yield Heading("How much of the peak bandwidth is achieved?", 2)
    yield from _describe_peak(section)
    yield Heading("How does it scale?", 2)
    yield from _describe_scaling(section)


def _describe_intensity(roofline: Roofline) -> Iterator[Part]:
    largest = roofline.workloads[-1]
    if roofline.cost is None or largest.intensity is None:
        missing = "bytes of this Workload are" if roofline.cost else "operations of this Definition are"
        yield f"Not known: the {missing} not counted by anything at hand."
        return
    yield (
        f"{largest.intensity:.2f} FLOP per byte at {largest.title}. Counted: {roofline.cost.how}; and the bytes of all"
        " inputs and outputs, each once, which is the least that any kernel moves."
    )
    yield Grid(
        ("workload", ">FLOP", ">bytes", ">FLOP per byte"),
        [
            (
                each.title,
                f"{each.flops:,}" if each.flops is not None else "",
                format_bytes(each.bytes_moved) if each.bytes_moved else "",
                f"{each.intensity:.2f}" if each.intensity is not None else "",
            )
            for each in roofline.workloads
        ],
    )


def _describe_bounds(roofline: Roofline) -> Iterator[Part]:
    peak, device, ridge = roofline.peak, roofline.device, roofline.ridge
    if peak is None:
        yield "Not known: neither the Traces nor the table of datasheets tell this device's peak bandwidth."
        return
    if ridge is None or device is None or roofline.flops_per_s is None:
        yield (
            f"The peak bandwidth is {format_bandwidth(peak.gb_per_s)} ({peak.source}), but this device's arithmetic"
            " is not in the table of datasheets, so its ridge point is not known."
        )
    else:
        yield _ridge_text(roofline, device, ridge)
    yield Grid(
        ("workload", ">launch", ">memory", ">arithmetic", "bound by"),
        [
            (
                each.title,
                _latency(each.floor_ms),
                _latency(each.memory_ms),
                _latency(each.compute_ms),
                each.bound or "",
            )
            for each in roofline.workloads
        ],
    )
    yield (
        "The least time each needs: an empty kernel as measured, the bytes at the peak bandwidth, the operations at"
        " the peak rate. A Workload bound by launch is too small to use the memory: its latency is that of a launch"
        " and of one row."
    )


def _ridge_text(roofline: Roofline, device: Device, ridge: float) -> str:
    peak = roofline.peak
    clock = roofline.clock_mhz or device.boost_mhz
    whose = "measured" if roofline.clock_mhz else "datasheet's boost"
    intensity = roofline.workloads[-1].intensity
    verdict = ""
    if intensity is not None:
        kind = "compute-bound" if intensity > ridge else "memory-bound"
        times = max(intensity / ridge, ridge / intensity)
        verdict = f" At {intensity:.2f} FLOP per byte it is {kind}, {times:.0f} times off the ridge."
    return (
        f"The ridge point of this device is {ridge:.1f} FLOP per byte:"
        f" {(roofline.flops_per_s or 0) / 1e12:.1f} TFLOP/s in float32 ({device.multiprocessors} multiprocessors of"
        f" {device.fp32_lanes} multiply-adds, by the datasheet of the {device.name}, at the {whose} {clock:.0f} MHz)"
        f" over {format_bandwidth(peak.gb_per_s if peak else 0.0)} ({peak.source if peak else ''}).{verdict}"
    )


def _describe_peak(section: SectionFindings) -> Iterator[Part]:
    roofline = section.roofline
    rows = [
        (
            each.title,
            each.best.label,
            _latency(each.best.record.latency_ms),
            format_bandwidth(each.best.bandwidth_gb_per_s) if each.best.bandwidth_gb_per_s else "",
            format_percent(each.best.percent_of_peak) if each.best.percent_of_peak else "",
            format_percent(each.best.record.percent_of_copy) if each.best.record.percent_of_copy else "",
            _meaning(each),
        )
        for each in roofline.workloads
        if each.best is not None
    ]
    if not rows:
        yield "Not known: no Solution has a latency that can be trusted."
        return
    yield Grid(("workload", "fastest", ">latency", ">bandwidth", ">of peak", ">of copy", "% of peak means"), rows)
    last = roofline.workloads[-1].best
    if last is not None and last.percent_of_peak:
        copy = f" and {format_percent(last.record.percent_of_copy)} of a copy" if last.record.percent_of_copy else ""
        yield (
            f"At {roofline.workloads[-1].title}, {format_percent(last.percent_of_peak)} of the peak{copy} of the same"
            " bytes, which is what the device reaches when it does nothing else."
        )
    device = roofline.device
    if device is not None and any(each.fits_l2 for each in roofline.workloads):
        yield (
            "% of peak means nothing where the tensors fit in L2 "
            f"({format_bytes(device.l2_bytes)} on the {device.name}):"
            " what is written may stay in the cache when the kernel ends, so the memory's peak does not bound it, and"
            " the launch takes most of the time. There, the copy of the same bytes is the measure:"
            " same launch, same cache."
        )
    elif device is None and roofline.peak is not None:
        yield "The size of this device's L2 is not known: for Workloads that fit in it % of peak means nothing."


def _meaning(roof: WorkloadRoof) -> str:
    if roof.fits_l2:
        return "nothing: fits in L2"
    return "nothing: bound by launch" if roof.bound == "launch" else "how near the limit"


def _describe_scaling(section: SectionFindings) -> Iterator[Part]:
    if not section.fits:
        yield "Not known: a line needs trusted latencies of one Solution at four sizes or more."
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
    """What the ends of the range show without any model."""
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
            " kernels are faster there than their sum; what fits in L2 is written faster than the memory takes it,"
            " which makes the line's bandwidth higher than the largest Workloads reach."
        )


def _crossover(fit: Fit) -> tuple[str, str]:
    if fit.crossover is None:
        return format_bytes(fit.crossover_bytes.value), (
            f"{format_bytes(fit.crossover_bytes.low)} to {format_bytes(fit.crossover_bytes.high)}"
        )
    return f"{fit.crossover.value:.0f}", _span(fit.crossover, 1, "")


def _span(estimate: Estimate, scale: float, unit: str) -> str:
    low, high = max(0.0, estimate.low * scale), estimate.high * scale
    digits = 2 if high < 10 else 1 if high < 100 else 0
    top = f"{high:.{digits}f}" if math.isfinite(high) else "any"
    return f"{low:.{digits}f} to {top}{f' {unit}' if unit else ''}"


def _latency(latency_ms: float | None) -> str:
    """Down to the nanoseconds that a small Workload's bytes would take."""
    if latency_ms is None:
        return ""
    return f"{latency_ms * 1e6:.2g} ns" if latency_ms < 1e-4 else format_latency(latency_ms)


def findings_json(sections: Sequence[SectionFindings]) -> str:
    """The same in numbers."""
    return json.dumps([_section_record(section) for section in sections], indent=2) + "\n"


def _section_record(section: SectionFindings) -> dict[str, Any]:
    roofline, conditions = section.roofline, section.results.conditions
    return {
        "definition": section.results.definition,
        "hardware": conditions.hardware,
        "timer": conditions.timer,
        "clock_mhz": roofline.clock_mhz,
        "cold_l2": conditions.cold_l2,
        "flop_count": roofline.cost.how if roofline.cost else None,
        "peak_bandwidth_gb_per_s": roofline.peak.gb_per_s if roofline.peak else None,
        "peak_source": roofline.peak.source if roofline.peak else None,
        "peak_flops_per_s": roofline.flops_per_s,
        "ridge_flops_per_byte": roofline.ridge,
        "workloads": [
            {
                "axes": each.title,
                "flops": each.flops,
                "bytes_moved": each.bytes_moved,
                "flops_per_byte": each.intensity,
                "launch_ms": each.floor_ms,
                "memory_ms": each.memory_ms,
                "compute_ms": each.compute_ms,
                "bound_by": each.bound,
                "fits_l2": each.fits_l2,
                "fastest": each.best.record.solution if each.best else None,
                "latency_ms": each.best.record.latency_ms if each.best else None,
                "percent_of_peak": each.best.percent_of_peak if each.best else None,
                "percent_of_copy": each.best.record.percent_of_copy if each.best else None,
            }
            for each in roofline.workloads
        ],
        "scaling": [
            {
                "solution": fit.solution,
                "floor_ms": _interval(fit.floor_ms),
                "bandwidth_gb_per_s": _interval(fit.bandwidth_gb_per_s),
                "crossover_bytes": _interval(fit.crossover_bytes),
                "crossover": _interval(fit.crossover) if fit.crossover else None,
                "axis": fit.axis,
                "worst_miss": fit.worst_miss,
                "worst_miss_at": fit.worst.axes_text,
            }
            for fit in section.fits
        ],
    }


def _interval(estimate: Estimate) -> dict[str, float | None]:
    values = asdict(estimate)
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
