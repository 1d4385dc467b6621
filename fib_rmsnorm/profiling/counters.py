"""Parse the output of ncu's `--csv --page raw` into counters for each kernel."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass

_SCALES = {
    **{"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
_NO_WAITING = re.compile(r"selected|.*_not_issued")  # a warp that issues, and variants that exclude it
_SIZE = re.compile(r"\d+")


@dataclass(frozen=True)
class KernelCounters:
    """One kernel's launch and counters; None where this ncu or GPU does not report a counter."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    duration_us: float | None
    dram_bytes_read: float | None
    dram_bytes_written: float | None
    dram_percent_of_peak: float | None
    l1_hit_percent: float | None
    l2_hit_percent: float | None
    achieved_occupancy_percent: float | None
    theoretical_occupancy_percent: float | None
    registers: float | None
    waves: float | None
    load_requests: float | None
    load_sectors: float | None
    store_requests: float | None
    store_sectors: float | None
    stalls: dict[str, float]
    """The reasons why warps waited, as shares of all waiting, largest first."""

    @property
    def bandwidth_gb_per_s(self) -> float | None:
        """Bytes read from and written to device memory, divided by the duration."""
        if self.dram_bytes_read is None or self.dram_bytes_written is None or not self.duration_us:
            return None
        return (self.dram_bytes_read + self.dram_bytes_written) / self.duration_us / 1e3


METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
)
"""Metrics that no section contains."""
SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats")


def parse_counters(text: str) -> list[KernelCounters]:
    """Parse the raw page: a row of names, a row of units and a row per kernel; other lines are skipped."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if len(rows) < 3:
        return []
    names, units, *kernels = rows
    return [_read(dict(zip(names, row, strict=False)), dict(zip(names, units, strict=False))) for row in kernels]


def _read(values: dict[str, str], units: dict[str, str]) -> KernelCounters:
    def number(*names: str) -> float | None:
        found = (_parse(values.get(name, ""), units.get(name, "")) for name in names)
        return next((each for each in found if each is not None), None)

    seconds = number("gpu__time_duration.sum")
    return KernelCounters(
        kernel=values.get("Kernel Name", ""),
        grid=_size(values.get("Grid Size", "")),
        block=_size(values.get("Block Size", "")),
        duration_us=None if seconds is None else seconds * 1e6,
        dram_bytes_read=number("dram__bytes_read.sum"),
        dram_bytes_written=number("dram__bytes_write.sum"),
        dram_percent_of_peak=number(
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        l1_hit_percent=number("l1tex__t_sector_hit_rate.pct"),
        l2_hit_percent=number("lts__t_sector_hit_rate.pct"),
        achieved_occupancy_percent=number("sm__warps_active.avg.pct_of_peak_sustained_active"),
        theoretical_occupancy_percent=number("sm__maximum_warps_per_active_cycle_pct"),
        registers=number("launch__registers_per_thread"),
        waves=number("launch__waves_per_multiprocessor"),
        load_requests=number("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"),
        load_sectors=number("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
        store_requests=number("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"),
        store_sectors=number("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
        stalls=_share_stalls(
            (match[1], _parse(values[name], "")) for name in values if (match := _STALL.fullmatch(name))
        ),
    )


def _parse(value: str, unit: str) -> float | None:
    """Parse a number with commas as thousands separators; return None for `n/a` and other text."""
    try:
        return float(value.replace(",", "")) * _SCALES.get(unit, 1.0)
    except ValueError:
        return None


def _size(text: str) -> tuple[int, ...]:
    """Parse a size such as `(128, 1, 1)`."""
    return tuple(int(number) for number in _SIZE.findall(text))


def _share_stalls(found: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    waits = {reason: value for reason, value in found if value and not _NO_WAITING.fullmatch(reason)}
    total = sum(waits.values())
    return {reason: value / total for reason, value in sorted(waits.items(), key=lambda item: -item[1])}
