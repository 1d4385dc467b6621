"""An analysis in prose, tables and numbers: four questions, answered from what was measured."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from fib_rmsnorm.analysis.roofline import SectionFindings, WorkloadRoof
from fib_rmsnorm.reports.ranking import describe_left_out, winner_record
from fib_rmsnorm.reports.results import latency_cell, section_title, share_of_copy
from fib_rmsnorm.reports.text.document import Grid, Heading, Part
from fib_rmsnorm.reports.text.units import (
    format_bandwidth,
    format_bytes,
    format_latency,
    format_percent,
    format_ratio,
    pick,
)


def describe_findings(sections: Sequence[SectionFindings]) -> Iterator[Part]:
    """The four questions for each section."""
    for section in sections:
        yield Heading(section_title(section.results))
        yield from describe_section(section)


def describe_section(section: SectionFindings) -> Iterator[Part]:
    """The four questions, without the title."""
    yield Heading("What is the arithmetic intensity?", 2)
    yield from _describe_intensity(section)
    yield Heading("Is it compute-bound or memory-bound?", 2)
    yield from _describe_bounds(section)
    yield Heading("How much of the peak bandwidth is achieved?", 2)
    yield from _describe_peak(section)
    yield Heading("How does it scale?", 2)
    yield from _describe_scaling(section)


def _describe_intensity(section: SectionFindings) -> Iterator[Part]:
    """Operations a byte, and how they are counted."""
    largest = section.workloads[-1]
    if largest.cost is None or largest.intensity is None:
        yield "Unknown: its operations or its bytes are not counted."
        return
    yield (
        f"{largest.intensity:.2f} FLOP per byte at {largest.results.title}. Counted: {largest.cost.how}, and the"
        " bytes of all inputs and outputs, each once, which is the least that any kernel moves."
    )
    yield Grid(
        ("workload", ">FLOP", ">bytes", ">FLOP per byte"),
        [
            (
                each.results.title,
                f"{each.cost.flops:,}" if each.cost else "",
                format_bytes(each.bytes_moved) if each.bytes_moved else "",
                f"{each.intensity:.2f}" if each.intensity is not None else "",
            )
            for each in section.workloads
        ],
    )


def _describe_bounds(section: SectionFindings) -> Iterator[Part]:
    """The ridge point, and which resource needs the longest on each Workload."""
    peak, device, ridge = section.peak, section.device, section.ridge
    if peak is None:
        yield "The peak is unknown: neither the Traces nor the datasheet table give this device's bandwidth."
        return
    if ridge is None or device is None:
        yield (
            f"The peak bandwidth is {format_bandwidth(peak.gb_per_s)} ({peak.source}), but this device's arithmetic"
            " is not in the datasheet table, so its ridge point is unknown."
        )
    else:
        clock_mhz = section.clock_mhz or device.boost_mhz
        whose = "measured" if section.clock_mhz else "datasheet's boost"
        intensity, verdict = section.workloads[-1].intensity, ""
        if intensity is not None:
            kind = "compute-bound" if intensity > ridge else "memory-bound"
            times = max(intensity / ridge, ridge / intensity)
            verdict = f" At {intensity:.2f} FLOP per byte it is {kind}, {times:.0f} times off the ridge."
        yield (
            f"The ridge point of this device is {ridge:.1f} FLOP per byte:"
            f" {(section.flops_per_s or 0) / 1e12:.1f} TFLOP/s in float32 ({device.multiprocessors} multiprocessors of"
            f" {device.fp32_units} multiply-adds, by the datasheet of the {device.name}, at the {whose}"
            f" {clock_mhz:.0f} MHz) over {format_bandwidth(peak.gb_per_s)} ({peak.source}).{verdict}"
        )
    yield Grid(
        ("workload", ">launch", ">memory", ">arithmetic", "bound by"),
        [
            (
                each.results.title,
                *map(_latency, (each.results.empty_ms, each.memory_ms, each.compute_ms)),
                each.bound or "",
            )
            for each in section.workloads
        ],
    )
    yield (
        "The least time each needs: an empty kernel as measured, the bytes at the peak bandwidth, the operations at"
        " the peak rate. A Workload bound by launch is too small to use the memory: its latency is that of a launch"
        " and of one row."
    )


def _describe_peak(section: SectionFindings) -> Iterator[Part]:
    """How much of the peak and of the copy the fastest reach, and where that means nothing."""
    columns = ("workload", "fastest", ">latency", ">bandwidth", ">of peak", ">of copy", "% of peak means")
    yield Grid(columns, [_peak_row(each) for each in section.workloads])
    yield from describe_left_out(section.results.workloads)
    largest = section.results.workloads[-1]
    last = largest.winner
    if last is not None and last.percent_of_peak:
        copy = f" and {share_of_copy(last)} of a copy" if last.record.percent_of_copy else ""
        yield (
            f"At {largest.title}, {format_percent(last.percent_of_peak)} of the peak{copy} of the same bytes, which is"
            " what the device reaches when it does nothing else."
        )
    device = section.device
    if device and any(each.fits_l2 for each in section.workloads):
        yield (
            f"% of peak means nothing where the tensors fit in L2 ({format_bytes(device.l2_bytes)} on the"
            f" {device.name}): what is written may stay in the cache when the kernel ends, so the memory's peak does"
            " not bound it, and the launch takes most of the time. There, the copy of the same bytes is the measure:"
            " same launch, same cache."
        )


def _peak_row(roof: WorkloadRoof) -> Sequence[str]:
    best = roof.results.winner
    if best is None:
        return (roof.results.title, "none", "", "", "", "", "")
    return (
        roof.results.title,
        best.label,
        latency_cell(best),
        format_bandwidth(best.record.bandwidth_gb_per_s) if best.record.bandwidth_gb_per_s else "",
        format_percent(best.percent_of_peak) if best.percent_of_peak else "",
        share_of_copy(best),
        _meaning(roof),
    )


def _meaning(roof: WorkloadRoof) -> str:
    if roof.memory_ms is None:
        return ""
    if roof.fits_l2:
        return "nothing: fits in L2"
    if roof.bound == "launch":
        return "nothing: bound by launch"
    if roof.results.winner and (roof.results.winner.percent_of_peak or 0.0) > 100:
        return "too high: L2 kept a part of the bytes"
    return "how near the limit"


def _latency(latency_ms: float | None) -> str:
    """Down to the nanoseconds that a small Workload's bytes would take."""
    if latency_ms is None:
        return ""
    return f"{latency_ms * 1e6:.2g} ns" if latency_ms < 1e-4 else format_latency(latency_ms)


def _describe_scaling(section: SectionFindings) -> Iterator[Part]:
    """How many times the bytes and the latency of the fastest grow from each Workload to the next."""
    timed = [
        (each, latency) for each in section.workloads if (best := each.results.fastest) and (latency := best.latency_ms)
    ]
    if len(timed) < 2:
        yield "Unknown: fewer than two Workloads have a latency."
        return
    yield (
        "How many times the bytes and the latency of the fastest grow from each Workload to the next. Where both grow"
        " alike, memory is the limit; where the latency grows less, the launch is; where it grows more, the tensors no"
        " longer fit in a cache."
    )
    yield Grid(
        ("from", "to", ">times the bytes", ">times the latency"),
        [
            (
                before.results.title,
                after.results.title,
                format_ratio(after.bytes_moved / before.bytes_moved)
                if before.bytes_moved and after.bytes_moved
                else "",
                format_ratio(latency / earlier),
            )
            for (before, earlier), (after, latency) in pairwise(timed)
        ],
    )


def finding_records(sections: Sequence[SectionFindings]) -> list[dict[str, Any]]:
    """The same in numbers."""
    return [
        {
            "definition": section.results.definition,
            **pick(section.results.conditions, "hardware", "timer", "cold_l2"),
            "clock_mhz": section.clock_mhz,
            **pick(section.workloads[-1].cost, flop_count="how"),
            **pick(section.peak, peak_bandwidth_gb_per_s="gb_per_s", peak_source="source"),
            **pick(section, peak_flops_per_s="flops_per_s", ridge_flops_per_byte="ridge"),
            "workloads": [
                {
                    **each.results.identity,
                    **pick(each.cost, "flops"),
                    **pick(each, "bytes_moved", "memory_ms", "compute_ms", "fits_l2", flops_per_byte="intensity"),
                    "launch_ms": each.results.empty_ms,
                    "bound_by": each.bound,
                    **winner_record(each.results),
                    **pick(each.results.winner, "percent_of_peak"),
                }
                for each in section.workloads
            ],
        }
        for section in sections
    ]
