"""Run a Solution once under NVIDIA's compute-sanitizer, and read what that writes.

Its lines stand behind `=========`, the details of a report further to the right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.building.native import find_cuda_tool
from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.tool_process import prepare_call, require_gpu, run_tool
from fib_rmsnorm.schema import Definition, Solution, Workload

_LINE = re.compile(r"^={8,}(.*)$", re.MULTILINE)
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? displayed \(.*\))$")
# Lines at the left that report nothing about a kernel. Those that begin with "Error" say why the tool saw none.
_ABOUT_THE_RUN = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Target application returned an error|Tracking kernels launched"
    r"|Default timeout can be adjusted|Error: (?!Race reported)"
)
_BACKTRACE = re.compile(r"Saved host backtrace|Host Frame")
_NO_SANITIZER = (
    "compute-sanitizer is missing: install it from NVIDIA's package repository"
    " (apt-get install cuda-sanitizer-13-0, for CUDA 13.0), or set CUDA_HOME to a toolkit that has it"
)
_PADDING_BYTES = 1 << 16
_CONNECTING_S = 120
# Each tensor is an allocation of its own then. In torch's pool, the tool would not see a read beyond a tensor.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


@dataclass
class SanitizerFinding:
    """The tool's report on one place of a kernel."""

    what: str
    """The first line: `Invalid __global__ read of size 2 bytes`."""
    details: list[str]
    """The lines below that of the first report: kernel, thread, address."""
    reports: int = 1
    """How many reports are alike but for the thread and the address."""


@dataclass(frozen=True)
class SanitizerLog:
    """The text of one run."""

    errors: int | None
    """The tool's count at the end, which may be more than it printed; None if it did not finish."""
    findings: list[SanitizerFinding]
    failures: list[str]
    """Why the tool could not watch the process."""


def parse_log(text: str) -> SanitizerLog:
    """Parse the tool's text of any of its checks."""
    errors: int | None = None
    findings: list[SanitizerFinding] = []
    failures: list[str] = []
    current: SanitizerFinding | None = None
    for line in _LINE.findall(text):
        told = line.strip()
        if summary := _SUMMARY.match(told):
            errors = int(summary[1] or summary[2])
        elif not told:
            current = None
        elif line.startswith("  "):
            if current is not None and not _BACKTRACE.match(told):
                current.details.append(told)
        elif _ABOUT_THE_RUN.match(told):
            current = None
            failures += [told.removeprefix("Error: ")] if told.startswith("Error: ") else []
        else:
            current = SanitizerFinding(told, [])
            findings.append(current)
    return SanitizerLog(errors, _join_alike(findings), failures)


def _join_alike(findings: list[SanitizerFinding]) -> list[SanitizerFinding]:
    """One finding for the reports of all threads that met the same fault at the same place."""
    joined: dict[tuple[str, str], SanitizerFinding] = {}
    for each in findings:
        place = next((detail for detail in each.details if detail.startswith("at ")), "")
        first = joined.setdefault((each.what, place), each)
        first.reports += first is not each
    return list(joined.values())


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
    tool = find_cuda_tool("compute-sanitizer")
    if tool is None:
        raise EnvironmentMissingError(_NO_SANITIZER)
    with prepare_call("compute-sanitizer", definition, solution, workload, device, dataset=dataset, tool=tool) as call:
        log, done = call.folder / "log", call.own / "done"
        command = [*_command(tool, sanitizer, log), *call.command]
        run = run_tool(command, timeout_s, solution, {**call.variables, **_ENVIRONMENT})
        found = parse_log(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        if not found.findings and (run.returncode != 0 or not done.exists() or found.errors != 0):
            raise InputError(f"{solution.name}: {sanitizer} could not check it: {_reason(found, run.stderr)}")
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
