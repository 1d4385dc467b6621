"""A Performance for a skeptical reader: marks, the number, what bounds it, and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.comparing.difference import find_speedup
from fib_rmsnorm.analysis.estimate import Estimate, RunLatency, recorded
from fib_rmsnorm.reports.records.record import fields, joined, told
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
from fib_rmsnorm.schema import Ceiling, Chain, Clocks, KernelLaunch, Performance

_L2 = {True: "evicted before each call", False: "warm", None: ""}


def describe_performance(performance: Performance) -> Iterator[RenderableType]:
    """Marks first, then one fact per line; unknown facts are left out."""
    if performance.interpreted:
        yield "Correct, and not timed: Triton's interpreter ran the kernel."
        return
    for reason in performance.noisy:
        yield Text.assemble(("noisy", "bold yellow"), (f": {harmless(reason)}", "yellow"))
    if performance.noisy:
        yield ""
    ceiling, clocks = performance.ceiling, performance.clocks
    yield from fields(
        {
            **_latency_fields(performance),
            **(_chain_fields(performance.chain) if performance.chain else {}),
            **_launch_fields(performance.launches or []),
            **_speed_fields(performance),
            **(_ceiling_fields(ceiling, is_cpu=performance.timer == "cpu_clock") if ceiling else {}),
            "Host overhead": joined(
                told(performance.host_overhead_us, lambda us: f"{format_latency(us / 1e3)} to issue a call"),
                told(
                    ceiling.empty_host_us if ceiling else None,
                    lambda us: f"{format_latency(us / 1e3)} for an empty kernel",
                ),
            ),
            "First call": told(performance.first_call_ms, format_latency),
            "Build": told(performance.build_s, lambda build_s: f"{build_s:.2f} s"),
            "Peak memory": told(performance.peak_memory_bytes, lambda size: f"{format_bytes(size)} beyond its outputs"),
            "Timer": performance.timer or "not recorded",
            "L2": _L2[performance.cold_l2],
            **(_clock_fields(clocks, performance.disturbed_calls) if clocks else {}),
        }
    )


def _latency_fields(performance: Performance) -> dict[str, str]:
    samples, trials, latency = performance.samples, performance.trials, RunLatency.of(performance)
    p5_ms, p95_ms = performance.latency_p5_ms, performance.latency_p95_ms
    interval = latency.interval_ms if latency else None
    median = f"{format_latency(performance.latency_ms)}{' (median)' if samples else ''}"
    busy_ms, pieces = performance.busy_ms, performance.pieces or 0
    return {
        "Latency": f"{median}; {_interval(interval)}, ±{format_half_width(interval)}" if interval else median,
        "Spread": f"5% to 95%: {_span(p5_ms, p95_ms)}" if p5_ms is not None and p95_ms is not None else "",
        "Samples": count(samples, "call") + (f" in {count(trials, 'trial')}" if trials else "") if samples else "",
        "A/A": told(performance.a_a_difference, _describe_drift),
        "Busy": f"{format_latency(busy_ms)} in {pieces} pieces" if busy_ms is not None and pieces > 1 else "",
        "On an idle GPU": told(performance.as_called_ms, format_latency),
        "With L2 hot": told(performance.hot_latency_ms, format_latency),
    }


def _describe_drift(difference: float) -> str:
    return f"earlier and later trials differ by {format_share(difference)}"


def _chain_fields(chain: Chain) -> dict[str, str]:
    """What a call costs in a CUDA graph, and the clock during its replays."""
    if chain.chain_refused:
        return {"In a graph": f"not captured: {harmless(chain.chain_refused)}"}
    return {
        "In a graph": joined(
            _cost(chain.chained_latency_ms, chain.chained_low_ms, chain.chained_high_ms),
            count(chain.chained_replays, "replay") if chain.chained_replays else "",
            told(chain.chained_a_a_difference, _describe_drift),
            told(
                chain.chained_bare_link_ms,
                lambda bare_ms: f"{chain.links} links, of {format_latency(bare_ms)} without the call",
            ),
            told(chain.clocks.during_mhz if chain.clocks else None, lambda mhz: f"{mhz:.0f} MHz"),
            *(f"noisy: {harmless(reason)}" for reason in chain.chain_noisy),
        ),
        "Dependent": joined(
            _cost(chain.dependent_latency_ms, chain.dependent_low_ms, chain.dependent_high_ms),
            count(chain.dependent_replays, "replay") if chain.dependent_replays else "",
            told(chain.dependent_a_a_difference, _describe_drift),
            told(chain.dependent_latency_ms, lambda _: "by programmatic dependent launch"),
        ),
    }


def _cost(latency_ms: float | None, low_ms: float | None, high_ms: float | None) -> str:
    if latency_ms is None or low_ms is None or high_ms is None:
        return ""
    interval = recorded(latency_ms, low_ms, high_ms) if latency_ms > 0 else None
    either_side = f", ±{format_half_width(interval)}" if interval else ""
    return f"{format_latency(latency_ms)} a call{either_side}"


def _launch_fields(launches: list[KernelLaunch]) -> dict[str, str]:
    """A line for each kernel of a call."""
    lines = {}
    for number, launch in enumerate(launches, 1):
        grid, block = (" x ".join(map(str, size)) for size in (launch.grid, launch.block))
        static, dynamic = launch.static_shared_bytes, launch.dynamic_shared_bytes
        lines[f"Kernel {number}" if len(launches) > 1 else "Kernel"] = joined(
            f"{launch.name}: grid {grid}",
            f"block {block}",
            f"{count(launch.registers, 'register')} a thread",
            f"{format_bytes(static)} shared" if static else "",
            f"{format_bytes(dynamic)} dynamic shared" if dynamic else "",
        )
    return lines


def _speed_fields(performance: Performance) -> dict[str, str]:
    bandwidth, ceiling = performance.bandwidth_gb_per_s, performance.ceiling
    peak = ceiling.peak_bandwidth_gb_per_s if ceiling else None
    reference, speedup = RunLatency.of_reference(performance), find_speedup(performance)
    interval = reference.interval_ms if reference else None
    of_peak = ""
    if bandwidth is not None and peak:
        of_peak = f"{format_percent(100 * bandwidth / peak)} of the datasheet's {format_bandwidth(peak)}"
    return {
        "Reference": "; ".join(
            filter(
                None,
                (
                    joined(format_latency(performance.reference_latency_ms), told(interval, _interval)),
                    _speedup_text(performance, speedup) if speedup else "",
                ),
            )
        ),
        "Bandwidth": joined(
            told(bandwidth, format_bandwidth),
            told(performance.percent_of_copy, lambda percent: f"{format_percent(percent)} of copy"),
            of_peak,
        ),
        "Bytes moved": told(
            performance.bytes_moved, lambda moved: f"{format_bytes(moved)} (inputs and outputs, each once)"
        ),
    }


def _speedup_text(performance: Performance, speedup: Estimate) -> str:
    """The speedup, with its interval where both latencies have one."""
    latencies = RunLatency.of(performance), RunLatency.of_reference(performance)
    is_sure = all(latency and latency.interval_ms for latency in latencies)
    ends = f" ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})" if is_sure else ""
    return f"speedup {format_ratio(speedup.value)}{ends}"


def _ceiling_fields(ceiling: Ceiling, *, is_cpu: bool) -> dict[str, str]:
    return {
        "Copy": joined(
            f"{format_latency(ceiling.copy_ms)} for as many bytes",
            f"95% interval {_span(ceiling.copy_low_ms, ceiling.copy_high_ms)}",
            f"by {ceiling.copy_method}",
            f"pinned to {count(len(ceiling.threads), 'core')}" if ceiling.threads else "",
            ceiling.note or "",
        ),
        "Empty call" if is_cpu else "Empty kernel": format_latency(ceiling.empty_ms),
    }


def _clock_fields(clocks: Clocks, disturbed_calls: int | None) -> dict[str, str]:
    """The device around and during the trials."""
    throttled, others = clocks.throttle_reasons, clocks.other_processes
    return {
        "Clock": joined(
            told(clocks.before_mhz, lambda mhz: f"{mhz:.0f} MHz before"),
            told(clocks.during_mhz, lambda mhz: f"{mhz:.0f} during"),
            told(clocks.after_mhz, lambda mhz: f"{mhz:.0f} after"),
        ),
        "Conditions": joined(
            f"throttled: {', '.join(throttled)}" if throttled else "not throttled" if throttled == [] else "",
            told(clocks.max_temperature_c, lambda heat: f"at most {heat:.0f} °C"),
            told(clocks.other_share, lambda share: f"other processes took {share:.0%} of the cores"),
            told(disturbed_calls, lambda calls: f"{calls} timed calls had to wait for a core"),
            f"{others or 'no'} other process{'es' * (others > 1)} on the device" if others is not None else "",
        ),
    }


def _interval(interval_ms: Estimate) -> str:
    if not math.isfinite(interval_ms.high):
        return "a single call, which has no interval"
    return f"95% interval {_span(interval_ms.low, interval_ms.high)}"


def _span(low_ms: float, high_ms: float) -> str:
    return f"{format_latency(low_ms)} to {format_latency(high_ms)}"
