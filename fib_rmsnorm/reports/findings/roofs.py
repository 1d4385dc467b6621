"""Arithmetic intensity, what bounds each Workload, and how near the peak the fastest come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.roofline import Roofline, WorkloadRoof
from fib_rmsnorm.machine.gpu_models import GpuModel
from fib_rmsnorm.reports.ranking import describe_left_out
from fib_rmsnorm.reports.text.document import Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_bandwidth, format_bytes, format_latency, format_percent

# As fast a share of a copy as only the memory's speed explains.
_BOUND_BY_MEMORY = 80
# A share of the bytes that is worth a word when the memory was spared it.
_MUCH_LEFT_IN_L2 = 0.1


def describe_intensity(roofline: Roofline) -> Iterator[Part]:
    """Operations a byte, and how they are counted."""
    largest = roofline.workloads[-1]
    if roofline.cost is None or largest.intensity is None:
        missing = "bytes of this Workload are" if roofline.cost else "operations of this Definition are"
        yield f"Unknown: the {missing} not counted."
        return
    yield (
        f"{largest.intensity:.2f} FLOP per byte at {largest.title}. Counted: {roofline.cost.how}, and the bytes of all"
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


def describe_bounds(section: SectionFindings) -> Iterator[Part]:
    """The ridge point, and which resource needs the longest on each Workload."""
    roofline = section.roofline
    peak, device, ridge = roofline.peak, roofline.device, roofline.ridge
    if peak is None:
        yield "The peak is unknown: neither the Traces nor the datasheet table give this device's bandwidth."
        yield from _describe_by_copy(roofline)
        return
    if ridge is None or device is None or roofline.flops_per_s is None:
        yield (
            f"The peak bandwidth is {format_bandwidth(peak.gb_per_s)} ({peak.source}), but this device's arithmetic"
            " is not in the datasheet table, so its ridge point is unknown."
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


def _describe_by_copy(roofline: Roofline) -> Iterator[Part]:
    """Without a peak, the copy of the same bytes tells whether memory is what the fastest wait for."""
    measured = [each for each in roofline.workloads if each.best is not None and each.best.record.percent_of_copy]
    if not measured or measured[-1].best is None:
        return
    largest, best = measured[-1], measured[-1].best
    percent = best.record.percent_of_copy or 0.0
    verdict = (
        "it is memory-bound" if percent >= _BOUND_BY_MEMORY else "something other than the memory bounds it as well"
    )
    yield (
        f"At {largest.title} the fastest Solution runs at {format_percent(percent)} of a copy of the same bytes:"
        f" {verdict}."
    )


def _ridge_text(roofline: Roofline, device: GpuModel, ridge: float) -> str:
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
        f" {device.fp32_units} multiply-adds, by the datasheet of the {device.name}, at the {whose} {clock:.0f} MHz)"
        f" over {format_bandwidth(peak.gb_per_s if peak else 0.0)} ({peak.source if peak else ''}).{verdict}"
    )


def describe_peak(section: SectionFindings) -> Iterator[Part]:
    """How much of the peak and of the copy the fastest reach, and where that means nothing."""
    roofline = section.roofline
    columns = ("workload", "fastest", ">latency", ">bandwidth", ">of peak", ">of copy", "% of peak means")
    yield Grid(columns, [_peak_row(each) for each in roofline.workloads])
    contests = [each.contest for each in roofline.workloads]
    yield from describe_left_out(contests)
    last = roofline.workloads[-1].best
    if last is not None and last.percent_of_peak:
        copy = f" and {format_percent(last.record.percent_of_copy)} of a copy" if last.record.percent_of_copy else ""
        yield (
            f"At {roofline.workloads[-1].title}, {format_percent(last.percent_of_peak)} of the peak{copy} of the same"
            " bytes, which is what the device reaches when it does nothing else."
        )
    device = roofline.device
    if device is not None and any(each.fits_l2 for each in roofline.workloads):
        size = format_bytes(device.l2_bytes)
        yield (
            f"% of peak means nothing where the tensors fit in L2 ({size} on the {device.name}): what is written may"
            " stay in the cache when the kernel ends, so the memory's peak does not bound it, and the launch takes most"
            " of the time. There, the copy of the same bytes is the measure: same launch, same cache."
        )
    elif device is None and roofline.peak is not None:
        yield "The size of this device's L2 is unknown; for Workloads that fit in it, % of peak means nothing."
    if device is not None and any(map(_leaves_much_in_l2, roofline.workloads)):
        yield (
            "% of peak is too high by what is still in L2 when the kernel ends: of what was written,"
            f" {format_bytes(device.l2_bytes)} at most. So it may be over 100%, and here too the copy, which leaves as"
            " much behind, is the measure."
        )


def _peak_row(roof: WorkloadRoof) -> Sequence[str]:
    best = roof.best
    if best is None:
        return (roof.title, "none", "", "", "", "", "")
    return (
        roof.title,
        best.label,
        _latency(best.record.latency_ms),
        format_bandwidth(best.bandwidth_gb_per_s) if best.bandwidth_gb_per_s else "",
        format_percent(best.percent_of_peak) if best.percent_of_peak else "",
        format_percent(best.record.percent_of_copy) if best.record.percent_of_copy else "",
        _meaning(roof),
    )


def _leaves_much_in_l2(roof: WorkloadRoof) -> bool:
    """Whether that is why % of peak says little: not where it says nothing anyway."""
    return bool(roof.left_in_l2 and roof.left_in_l2 >= _MUCH_LEFT_IN_L2 and not roof.fits_l2 and roof.bound != "launch")


def _meaning(roof: WorkloadRoof) -> str:
    if roof.memory_ms is None:
        return ""
    if roof.fits_l2:
        return "nothing: fits in L2"
    if roof.bound == "launch":
        return "nothing: bound by launch"
    if _leaves_much_in_l2(roof):
        return f"too high: up to {format_percent(100 * (roof.left_in_l2 or 0.0))} of the bytes stay in L2"
    return "how near the limit"


def _latency(latency_ms: float | None) -> str:
    """Down to the nanoseconds that a small Workload's bytes would take."""
    if latency_ms is None:
        return ""
    return f"{latency_ms * 1e6:.2g} ns" if latency_ms < 1e-4 else format_latency(latency_ms)
