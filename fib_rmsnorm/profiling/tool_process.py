"""Run one of NVIDIA's tools on a Python process that calls a Solution, and leave nothing of them behind.

The tool is NVIDIA's and starts as it is. The process confines itself before it loads anything of others, and then has
what a worker has, and the tool's own files. The tool's two halves talk by a socket on which the process listens, so it
needs no network, and by files in the folder for temporary files, which is the process's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry.files.tensor_files import tensor_files
from fib_rmsnorm.sandbox.confinement.libc import adopt_orphans
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server_process import is_marked, make_private_folder, remove_private_folder
from fib_rmsnorm.sandbox.log import Log
from fib_rmsnorm.schema import Definition, Solution, Workload

_POLL_S = 0.1
_START = """\
import os, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
from fib_rmsnorm.profiling.watched_call import main
main()
"""


def require_gpu(solution: Solution, device: Device, without: str) -> None:
    """Raise InputError with the message `without` for a CPU, or with the reason if the GPU cannot run the Solution."""
    if device.kind == "cpu":
        raise InputError(without)
    if reason := reason_to_skip(solution, device):
        raise InputError(f"{solution.name}: {reason}")


@dataclass(frozen=True)
class WatchedCall:
    """The files of a process that is watched, and its variables."""

    folder: Path
    """The folder that the process may at most read: its request, and the tool's log."""
    own: Path
    """The folder that it writes to: temporary files, the tool's among them."""
    variables: Mapping[str, str]

    @property
    def request(self) -> Path:
        """The file that names what to call, which `watched_call` reads."""
        return self.folder / "request.json"


@contextmanager
def prepare_call(
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    *,
    dataset: Path | None,
    tool: Path,
    reads_counters: bool = False,
) -> Iterator[WatchedCall]:
    """Write what a process is to call under a tool, and remove its files in the end.

    `reads_counters`: whether the process may read a GPU's counters.
    """
    cache = solution_cache(solution)
    folder = Path(make_private_folder())
    own = folder / "own"
    own.mkdir()
    installed = tool.resolve().parent  # with the tool's files, unless it is the user's home or holds it
    call = WatchedCall(folder, own, {**cache_variables(cache), "TMPDIR": str(own)})
    request = {
        "definition": definition.model_dump(mode="json"),
        "solution": solution.model_dump(mode="json"),
        "workload": workload.model_dump(mode="json"),
        "device": device.name,
        "dataset": str(dataset) if dataset else None,
        "cache": str(cache),
        "own": str(own),
        "reads_counters": reads_counters,
        "readable": [
            *map(str, toolchain_paths()),
            *([str(installed)] if not Path.home().resolve().is_relative_to(installed) else []),
            *map(str, tensor_files([workload], dataset) if dataset else ()),
        ],
    }
    try:
        call.request.write_text(json.dumps(request), encoding="utf-8")
        yield call
    finally:
        remove_private_folder(str(folder))


def python_command(call: str, request: Path, *arguments: Path) -> list[str]:
    """The command that runs a function of `watched_call` in a process that confines itself, with our own `sys.path`."""
    return [sys.executable, "-c", _START, os.pathsep.join(sys.path), call, str(request), *map(str, arguments)]


def run_tool(
    command: Sequence[str], timeout_s: float, solution: Solution, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a tool that calls a Solution, without secrets in its environment and without the user's terminal.

    Of what it and the Solution print, the beginning and the end are returned.
    Raises InputError if it cannot be started or takes too long.
    """
    deadline = time.monotonic() + timeout_s
    with closing(Log()) as out, closing(Log()) as err, _started(command, variables, out, err) as process:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise _describe_timeout(solution, timeout_s)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
            out.trim()
            err.trim()
    return subprocess.CompletedProcess(command, process.returncode, out.take(), err.take())


def read_report(
    command: Sequence[str], timeout_s: float, solution: Solution, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a tool that calls nothing, and return all that it prints. Raises InputError as `run_tool` does."""
    environment = {**keep_harmless(os.environ), **variables}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise _describe_timeout(solution, timeout_s) from None


def _describe_timeout(solution: Solution, timeout_s: float) -> InputError:
    return InputError(f"{solution.name}: timed out after {timeout_s:g} s; try a longer --timeout")


@contextmanager
def _started(
    command: Sequence[str], variables: Mapping[str, str], out: Log, err: Log
) -> Iterator[subprocess.Popen[bytes]]:
    """A tool in a session of its own; in the end it is killed with all its descendants, whoever their parent is."""
    before = {child.pid for child in psutil.Process().children()}
    with adopt_orphans():
        try:
            process = subprocess.Popen(
                command,
                env={**keep_harmless(os.environ), **variables},
                stdin=subprocess.DEVNULL,
                stdout=out.fileno(),
                stderr=err.fileno(),
                start_new_session=True,
            )
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
        try:
            yield process
        finally:
            _kill_descendants(process)
            process.wait()
            _kill_escaped(before)


def _kill_descendants(process: subprocess.Popen[bytes]) -> None:
    with suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                each.kill()
    process.kill()


def _kill_escaped(before: Collection[int]) -> None:
    """Kill the tool's orphans, whose parent we are now, if they come from a confined process, and theirs in turn."""
    found = True
    while found:
        found = False
        for child in psutil.Process().children():
            if child.pid not in before and is_marked(child.pid):
                with suppress(psutil.Error, OSError):
                    child.kill()
                    os.waitpid(child.pid, 0)
                    found = True
