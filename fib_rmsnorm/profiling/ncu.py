"""Run a Solution once under ncu, and read its counters for each kernel."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from fib_rmsnorm.building.cache import cache_folder, held
from fib_rmsnorm.building.native import find_cuda_tool
from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.tool_process import prepare_call, read_report, run_tool
from fib_rmsnorm.schema import Definition, Solution, Workload

_SCALES = {
    **{"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
_NO_WAITING = re.compile(r"selected|.*_not_issued")  # a warp that issues, and variants that exclude it
_SIZE = re.compile(r"\d+")
_COUNTERS = {
    "dram_bytes_read": ("dram__bytes_read.sum",),
    "dram_bytes_written": ("dram__bytes_write.sum",),
    "dram_percent_of_peak": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1_hit_percent": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "achieved_occupancy_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "theoretical_occupancy_percent": ("sm__maximum_warps_per_active_cycle_pct",),
    "registers": ("launch__registers_per_thread",),
    "waves": ("launch__waves_per_multiprocessor",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
}
"""ncu's metrics by the counter that they are, the first that this GPU has."""
_OF_NO_SECTION = ("dram_bytes", "load", "store")
"""Prefixes of the counters' names that none of these sections has."""
SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats")
_NO_NCU = (
    "ncu (NVIDIA Nsight Compute) is missing: install it from NVIDIA's package repository"
    " (apt-get install cuda-nsight-compute-13-0, for CUDA 13.0) or developer.nvidia.com/nsight-compute"
)
_NO_PERMISSION = (
    "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM): run as root, start the container"
    " with --cap-add PERFMON (drivers before 565: SYS_ADMIN), or load the nvidia module with"
    " NVreg_RestrictProfilingToAdminUsers=0"
)
_PRINT = ("--csv", "--page", "raw", "--print-units", "base")


@dataclass(frozen=True)
class KernelCounters:
    """One kernel's launch and counters."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    duration_us: float | None
    counters: dict[str, float | None]
    """By name; None where this ncu or GPU does not report one."""
    stalls: dict[str, float]
    """The reasons why warps waited, as shares of all waiting, largest first."""

    @property
    def bandwidth_gb_per_s(self) -> float | None:
        """Bytes read from and written to device memory, divided by the duration."""
        read, written = self.counters["dram_bytes_read"], self.counters["dram_bytes_written"]
        if read is None or written is None or not self.duration_us:
            return None
        return (read + written) / self.duration_us / 1e3


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
    reasons = {match[1]: _parse(values[name], "") for name in values if (match := _STALL.fullmatch(name))}
    waits = {reason: value for reason, value in reasons.items() if value and not _NO_WAITING.fullmatch(reason)}
    return KernelCounters(
        kernel=values.get("Kernel Name", ""),
        grid=tuple(map(int, _SIZE.findall(values.get("Grid Size", "")))),  # `(128, 1, 1)`
        block=tuple(map(int, _SIZE.findall(values.get("Block Size", "")))),
        duration_us=None if seconds is None else seconds * 1e6,
        stalls={
            reason: value / sum(waits.values()) for reason, value in sorted(waits.items(), key=lambda each: -each[1])
        },
        counters={name: number(*metrics) for name, metrics in _COUNTERS.items()},
    )


def _parse(value: str, unit: str) -> float | None:
    """Parse a number with commas as thousands separators; return None for `n/a` and other text."""
    try:
        return float(value.replace(",", "")) * _SCALES.get(unit, 1.0)
    except ValueError:
        return None


def find_ncu() -> Path | None:
    """Find ncu on PATH, in the CUDA toolkit, or where its own package installs it."""
    return find_cuda_tool("ncu", *sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True))


def profile(
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    report: Path,
    timeout_s: float,
    dataset: Path | None = None,
) -> list[KernelCounters]:
    """Call a Solution once on a Workload under ncu, with clean caches, and save ncu's report to `report`.

    Raises InputError if ncu is missing, may not read the counters or sees no kernel, or if the Solution fails.
    """
    if device.kind == "cpu" or device.is_amd:
        raise InputError("profile needs an NVIDIA GPU; without one, see: fib-rmsnorm explain")
    if reason := reason_to_skip(solution, device):
        raise InputError(f"{solution.name}: {reason}")
    ncu = find_ncu()
    if ncu is None:
        raise EnvironmentMissingError(_NO_NCU)
    with prepare_call(definition, solution, workload, device, dataset=dataset, tool=ncu) as (call, variables):
        with held(cache_folder()):  # one at a time can count; ncu's own lock lies among the files of this call
            run = run_tool([*_command(ncu, report), *call], timeout_s, solution, variables)
        _require_success(solution, run)
        printed = read_report([str(ncu), "--import", str(report), *_PRINT], timeout_s, solution, variables)
    _require_success(solution, printed)
    counters = parse_counters(printed.stdout)
    if not counters:
        raise InputError(f"{solution.name}: ncu recorded no kernel")
    return counters


def _command(ncu: Path, report: Path) -> list[str]:
    return [
        str(ncu),
        "--force-overwrite",
        *("--target-processes", "application-only"),  # not the compilers that it starts
        *("--export", str(report)),
        *("--profile-from-start", "off"),  # starts after inputs are made and kernels compiled
        *("--cache-control", "all"),  # flushes and invalidates all caches
        *("--clock-control", "none"),  # does not change the device's clocks
        *(part for section in SECTIONS for part in ("--section", section)),
        *("--metrics", ",".join(names[0] for each, names in _COUNTERS.items() if each.startswith(_OF_NO_SECTION))),
    ]


def _require_success(solution: Solution, run: CompletedProcess[str]) -> None:
    said = f"{run.stdout}\n{run.stderr}"
    if "ERR_NVGPUCTRPERM" in said:
        raise EnvironmentMissingError(_NO_PERMISSION)
    if run.returncode != 0:
        raise InputError(f"{solution.name}: ncu failed: {_reason(said)}")


def _reason(said: str) -> str:
    """Return ncu's own error message, or the last line of the profiled process."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    words = [line for line in lines if not line.startswith("==")]
    if errors and not any("exit" in error or "returned an error" in error for error in errors):
        return errors[0]
    return words[-1] if words else (errors or ["no message"])[0]
