"""A kernel's counters in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from fib_rmsnorm.profiling.ncu import KernelCounters
from fib_rmsnorm.reports.records.record import fields, heading, joined, told
from fib_rmsnorm.reports.text.document import plain_table
from fib_rmsnorm.reports.text.units import format_bandwidth, format_bytes, format_latency, format_percent

_REASONS = {
    "long_scoreboard": "data from global memory, or from L2",
    "short_scoreboard": "shared memory or a special function",
    "barrier": "other warps at a barrier",
    "wait": "a fixed latency of the previous instruction",
    "lg_throttle": "the queue of global and local accesses",
    "mio_throttle": "the queue of shared memory and special functions",
    "math_pipe_throttle": "a busy arithmetic unit",
    "drain": "stores to be written before it ends",
    "not_selected": "nothing: another warp was chosen",
    "branch_resolving": "where a branch goes",
    "no_instruction": "its next instructions",
}
"""What a warp of a norm waits for, by ncu's name of the reason."""


def describe_profile(kernels: Sequence[KernelCounters], rows: int) -> Iterator[RenderableType]:
    """The counters of each kernel, and why its warps waited; transactions are divided by the Workload's `rows`."""
    for kernel in kernels:
        yield heading(kernel.kernel)
        yield from fields(_counters(kernel, rows))
        if kernel.stalls:
            yield ""
            yield plain_table(
                ("warps wait for", ">share", "ncu's name"),
                (
                    (_REASONS.get(reason, reason), format_percent(100 * share), reason)
                    for reason, share in kernel.stalls.items()
                    if share >= 0.01
                ),
            )


def _counters(kernel: KernelCounters, rows: int) -> dict[str, str]:
    return {
        "Launch": f"grid {_size(kernel.grid)}, block {_size(kernel.block)}",
        "Duration": told(
            kernel.duration_us, lambda us: f"{format_latency(us / 1e3)} under ncu, with cold, clean caches"
        ),
        "Bandwidth": joined(
            told(kernel.bandwidth_gb_per_s, format_bandwidth),
            told(kernel.dram_percent_of_peak, lambda p: f"{format_percent(p)} of the memory's peak"),
        ),
        "Memory": joined(
            told(kernel.dram_bytes_read, lambda b: f"{format_bytes(b)} read"),
            told(kernel.dram_bytes_written, lambda b: f"{format_bytes(b)} written"),
        ),
        "Hits": joined(
            told(kernel.l1_hit_percent, lambda p: f"L1 {format_percent(p)}"),
            told(kernel.l2_hit_percent, lambda p: f"L2 {format_percent(p)}"),
        ),
        "Occupancy": joined(
            told(kernel.achieved_occupancy_percent, lambda p: f"{format_percent(p)} achieved"),
            told(kernel.theoretical_occupancy_percent, lambda p: f"{format_percent(p)} theoretical"),
            told(kernel.waves, lambda w: f"{w:.2f} waves"),
            told(kernel.registers, lambda r: f"{r:.0f} registers"),
        ),
        "Loads": _transactions(kernel.load_requests, kernel.load_sectors, rows),
        "Stores": _transactions(kernel.store_requests, kernel.store_sectors, rows),
    }


def _size(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _transactions(requests: float | None, sectors: float | None, rows: int) -> str:
    return joined(
        told(requests, lambda n: f"{n / rows:.4g} requests/row"),
        told(sectors, lambda n: f"{n / rows:.4g} sectors/row"),
    )
