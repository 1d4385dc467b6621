"""Run a Solution once under NVIDIA's compute-sanitizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.sanitizer_log import SanitizerLog, parse_log
from fib_rmsnorm.profiling.tool_process import run_tool
from fib_rmsnorm.profiling.watched_process import prepare_call, python_command, require_gpu
from fib_rmsnorm.schema import Definition, Solution, Workload

_NO_SANITIZER = (
    "compute-sanitizer is missing: install it from NVIDIA's package repository"
    " (apt-get install cuda-sanitizer-13-0, for CUDA 13.0), or set CUDA_HOME to a toolkit that has it"
)
_PADDING_BYTES = 1 << 16
_CONNECTING_S = 120
# Each tensor is an allocation of its own then. In torch's pool, the tool would not see a read beyond a tensor.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def find_compute_sanitizer() -> Path | None:
    """Find compute-sanitizer on PATH or in the CUDA toolkit."""
    candidates = [Path(found)] if (found := shutil.which("compute-sanitizer")) else []
    if home := find_cuda_home():
        candidates += [home / "bin" / "compute-sanitizer", home / "compute-sanitizer" / "compute-sanitizer"]
    return next((path for path in candidates if path.exists()), None)


def sanitize(
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    sanitizer: str,
    *,
    timeout_s: float,
    dataset: Path | None = None,
) -> SanitizerLog:
    """Call a Solution once on a Workload under compute-sanitizer, each tensor in an allocation of its own.

    `sanitizer` is the tool's `--tool`: memcheck, initcheck, racecheck or synccheck.

    Raises InputError if the tool is missing or fails, or if the Solution fails without a finding.
    """
    require_gpu(solution, device, "--sanitize needs a GPU; on a CPU, try guards the inputs of judged calls itself")
    tool = find_compute_sanitizer()
    if tool is None:
        raise EnvironmentMissingError(_NO_SANITIZER)
    with prepare_call(definition, solution, workload, device, dataset=dataset, tool=tool) as call:
        log, done = call.folder / "log", call.own / "done"
        target = python_command("fib_rmsnorm.profiling.sanitized_call", call.request, done)
        command = [*_command(tool, sanitizer, log), *target]
        run = run_tool(command, timeout_s, solution, {**call.variables, **_ENVIRONMENT})
        found = parse_log(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        if not found.findings and (run.code != 0 or not done.exists() or found.errors != 0):
            raise InputError(f"{solution.name}: {sanitizer} could not check it: {_reason(found, run.err)}")
    return found


def _command(tool: Path, sanitizer: str, log: Path) -> list[str]:
    of_memcheck = ("--padding", str(_PADDING_BYTES), "--report-api-errors", "no")  # torch tries calls that may fail
    return [
        str(tool),
        *("--tool", sanitizer),
        *("--log-file", str(log)),
        *("--target-processes", "application-only"),  # not the compilers that it starts
        *("--launch-timeout", str(_CONNECTING_S)),
        *("--show-backtrace", "device"),
        *(of_memcheck if sanitizer == "memcheck" else ()),
    ]


def _reason(found: SanitizerLog, said: str) -> str:
    """The last line that the process printed, which is that of an exception; or why the tool could not watch it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (lines or found.failures or ["it printed no report"])[-1]
