"""A Performance for a skeptical reader: marks, the number, what bounds it, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.comparing.difference import find_speedup
from fib_rmsnorm.analysis.estimate import Estimate, RunLatency
from fib_rmsnorm.reports.chain.chain_record import chain_fields
from fib_rmsnorm.reports.records.conditions import condition_fields
from fib_rmsnorm.reports.records.record import fields, joined
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.units import (
    count,
    format_bandwidth,
    format_bytes,
    format_half_width,
    format_latency,
    format_percent,
    format_ratio,
    format_share,
)
from fib_rmsnorm.schema import KernelLaunch, Performance

_STOPPED = {
    "interval": "until the median was known within 1%",
    "budget": "until the time budget was spent",
    "iterations": "as many as requested",
}


def describe_performance(performance: Performance) -> Iterator[RenderableType]:
    """Marks first, then one fact per line; unknown facts are left out."""
    if performance.interpreted:
        yield "Correct, and not timed: Triton's interpreter ran the kernel."
        return
    for reason in performance.noisy:
        yield Text.assemble(("noisy", "bold yellow"), (f": {harmless(reason)}", "yellow"))
    if performance.noisy:
        yield ""
    yield from fields(
        {
            **_latency_fields(performance),
            **(chain_fields(performance.chain) if performance.chain else {}),
            **_launch_fields(performance.launches or []),
            **_speed_fields(performance),
            **_ceiling_fields(performance),
            **_cost_fields(performance),
            **condition_fields(performance),
        }
    )


def _latency_fields(performance: Performance) -> dict[str, str]:
    latency_ms, samples, trials = performance.latency_ms, performance.samples, performance.trials
    p5_ms, p95_ms = performance.latency_p5_ms, performance.latency_p95_ms
    told = [f"{format_latency(latency_ms)}{' (median)' if samples else ''}"]
    if (latency := RunLatency.of(performance)) and latency.interval_ms:
        told.append(f"{_interval(latency.interval_ms)}, ±{format_half_width(latency.interval_ms)}")
    busy_ms, pieces, hot_ms = performance.busy_ms, performance.pieces or 0, performance.hot_latency_ms
    difference = performance.a_a_difference
    return {
        "Latency": "; ".join(told),
        "Spread": f"5% to 95%: {_span(p5_ms, p95_ms)}" if p5_ms is not None and p95_ms is not None else "",
        "Samples": joined(
            count(samples, "call") + (f" in {count(trials, 'trial')}" if trials else "") if samples else "",
            _STOPPED[performance.stopped_by] if performance.stopped_by else "",
        ),
        "Repeated": joined(
            f"{count(len(repeated), 'trial')} measured again" if (repeated := performance.repeated_trials) else "",
            *map(harmless, repeated[:1]),
        ),
        "A/A": f"earlier and later trials differ by {format_share(difference)}" if difference is not None else "",
        "Busy": f"{format_latency(busy_ms)} in {pieces} pieces" if busy_ms is not None and pieces > 1 else "",
        "On an idle GPU": format_latency(performance.as_called_ms) if performance.as_called_ms is not None else "",
        "With L2 hot": format_latency(hot_ms) if hot_ms is not None else "",
    }


def _launch_fields(launches: list[KernelLaunch]) -> dict[str, str]:
    """A line for each kernel of a call."""
    told = {}
    for number, launch in enumerate(launches, 1):
        grid, block = (" x ".join(map(str, size)) for size in (launch.grid, launch.block))
        static, dynamic = launch.static_shared_bytes, launch.dynamic_shared_bytes
        told[f"Kernel {number}" if len(launches) > 1 else "Kernel"] = joined(
            f"{launch.name}: grid {grid}",
            f"block {block}",
            f"{count(launch.registers, 'register')} a thread",
            f"{format_bytes(static)} shared" if static else "",
            f"{format_bytes(dynamic)} dynamic shared" if dynamic else "",
        )
    return told


def _speed_fields(performance: Performance) -> dict[str, str]:
    moved = performance.bytes_moved
    bandwidth = performance.bandwidth_gb_per_s
    peak = performance.ceiling.peak_bandwidth_gb_per_s if performance.ceiling else None
    return {
        "Reference": "; ".join(filter(None, (_reference_text(performance), _speedup_text(performance)))),
        "Bandwidth": joined(
            format_bandwidth(bandwidth) if bandwidth is not None else "",
            _share_of_copy_text(performance),
            f"{format_percent(100 * bandwidth / peak)} of the datasheet's {format_bandwidth(peak)}"
            if bandwidth is not None and peak
            else "",
        ),
        "Bytes moved": f"{format_bytes(moved)} (inputs and outputs, each once)" if moved is not None else "",
    }


def _reference_text(performance: Performance) -> str:
    reference = RunLatency.of_reference(performance)
    interval = _interval(reference.interval_ms) if reference and reference.interval_ms else ""
    return joined(format_latency(performance.reference_latency_ms), interval)


def _speedup_text(performance: Performance) -> str:
    speedup, latencies = find_speedup(performance), (RunLatency.of(performance), RunLatency.of_reference(performance))
    if speedup is None:
        return ""
    is_sure = all(latency and latency.interval_ms for latency in latencies)
    ends = f" ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})" if is_sure else ""
    return f"speedup {format_ratio(speedup.value)}{ends}"


def _share_of_copy_text(performance: Performance) -> str:
    percent = performance.percent_of_copy
    return f"{format_percent(percent)} of copy" if percent is not None else ""


def _ceiling_fields(performance: Performance) -> dict[str, str]:
    ceiling = performance.ceiling
    if ceiling is None:
        return {}
    cores = f"pinned to {count(len(ceiling.threads), 'core')}" if ceiling.threads else ""
    interval = f"95% interval {_span(ceiling.copy_low_ms, ceiling.copy_high_ms)}"
    empty = "Empty call" if performance.timer == "cpu_clock" else "Empty kernel"
    return {
        "Copy": joined(
            f"{format_latency(ceiling.copy_ms)} for as many bytes",
            interval,
            f"by {ceiling.copy_method}",
            cores,
            ceiling.note or "",
        ),
        empty: format_latency(ceiling.empty_ms),
    }


def _cost_fields(performance: Performance) -> dict[str, str]:
    overhead_us, first_ms = performance.host_overhead_us, performance.first_call_ms
    build_s, memory = performance.build_s, performance.peak_memory_bytes
    empty_us = performance.ceiling.empty_host_us if performance.ceiling else None
    return {
        "Host overhead": joined(
            f"{format_latency(overhead_us / 1e3)} to issue a call" if overhead_us is not None else "",
            f"{format_latency(empty_us / 1e3)} for an empty kernel" if empty_us is not None else "",
        ),
        "First call": format_latency(first_ms) if first_ms is not None else "",
        "Build": f"{build_s:.2f} s" if build_s is not None else "",
        "Peak memory": f"{format_bytes(memory)} beyond its outputs" if memory is not None else "",
    }


def _interval(interval_ms: Estimate) -> str:
    if not math.isfinite(interval_ms.high):
        return "a single call, which has no interval"
    return f"95% interval {_span(interval_ms.low, interval_ms.high)}"


def _span(low_ms: float, high_ms: float) -> str:
    return f"{format_latency(low_ms)} to {format_latency(high_ms)}"
