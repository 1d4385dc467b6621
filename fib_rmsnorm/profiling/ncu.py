"""Run a Solution once under ncu."""

from __future__ import annotations

import shutil
from pathlib import Path

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.folder_lock import held
from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.counters import METRICS, SECTIONS, KernelCounters, parse_counters
from fib_rmsnorm.profiling.tool_process import ToolRun, read_report, run_tool
from fib_rmsnorm.profiling.watched_process import prepare_call, python_command, require_gpu
from fib_rmsnorm.schema import Definition, Solution, Workload

_NO_NCU = (
    "ncu (NVIDIA Nsight Compute) is missing: install it from NVIDIA's package repository"
    " (apt-get install cuda-nsight-compute-13-0, for CUDA 13.0) or developer.nvidia.com/nsight-compute"
)
_NO_PERMISSION = (
    "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM): run as root, start the container"
    " with --cap-add PERFMON (drivers before 565: SYS_ADMIN), or load the nvidia module with"
    " NVreg_RestrictProfilingToAdminUsers=0"
)


def find_ncu() -> Path | None:
    """Find ncu on PATH, in the CUDA toolkit, or where its own package installs it."""
    candidates = [Path(found)] if (found := shutil.which("ncu")) else []
    if home := find_cuda_home():
        candidates.append(home / "bin" / "ncu")
    candidates += sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    return next((path for path in candidates if path.exists()), None)


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
    require_gpu(solution, device, "profile needs a GPU")
    ncu = find_ncu()
    if ncu is None:
        raise EnvironmentMissingError(_NO_NCU)
    with prepare_call(definition, solution, workload, device, dataset=dataset, tool=ncu, reads_counters=True) as call:
        with held(cache_folder()):  # one at a time can count; ncu's own lock lies among the files of this call
            run = run_tool(_command(ncu, report, call.request), timeout_s, solution, call.variables)
        _require_success(solution, run)
        printed = read_report([str(ncu), "--import", str(report), *_PRINT], timeout_s, solution, call.variables)
    _require_success(solution, printed)
    counters = parse_counters(printed.out)
    if not counters:
        raise InputError(f"{solution.name}: ncu recorded no kernel")
    return counters


_PRINT = ("--csv", "--page", "raw", "--print-units", "base")


def _command(ncu: Path, report: Path, request: Path) -> list[str]:
    return [
        str(ncu),
        "--force-overwrite",
        *("--target-processes", "application-only"),  # not the compilers that it starts
        *("--export", str(report)),
        *("--profile-from-start", "off"),  # starts after inputs are made and kernels compiled
        *("--cache-control", "all"),  # flushes and invalidates all caches
        *("--clock-control", "none"),  # does not change the device's clocks
        *(part for section in SECTIONS for part in ("--section", section)),
        *("--metrics", ",".join(METRICS)),
        *python_command("fib_rmsnorm.profiling.profiled_call", request),
    ]


def _require_success(solution: Solution, run: ToolRun) -> None:
    said = f"{run.out}\n{run.err}"
    if "ERR_NVGPUCTRPERM" in said:
        raise EnvironmentMissingError(_NO_PERMISSION)
    if run.code != 0:
        raise InputError(f"{solution.name}: ncu failed: {_reason(said)}")


def _reason(said: str) -> str:
    """Return ncu's own error message, or the last line of the profiled process."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    words = [line for line in lines if not line.startswith("==")]
    if errors and not any("exit" in error or "returned an error" in error for error in errors):
        return errors[0]
    return words[-1] if words else (errors or ["no message"])[0]
