"""Run one of NVIDIA's tools on a Python process that calls a Solution, and leave nothing of them behind.

The tool is NVIDIA's and starts as it is. The process confines itself before it loads anything of others, and then has
what a worker has, and the tool's own files. The tool's two halves talk by a socket on which the process listens, so it
needs no network, and by files in the folder for temporary files, which is the process's own.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.watched_call import WatchedRequest
from fib_rmsnorm.registry.files.tensor_files import tensor_files
from fib_rmsnorm.sandbox.confinement.libc import adopt_orphans
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server_process import (
    is_marked,
    kill_children,
    make_private_folder,
    python_command,
    remove_private_folder,
)
from fib_rmsnorm.sandbox.log import Log
from fib_rmsnorm.schema import Definition, Solution, Workload

_POLL_S = 0.1


@contextmanager
def prepare_call(
    definition: Definition, solution: Solution, workload: Workload, device: Device, *, dataset: Path | None, tool: Path
) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Write what a process is to call under a tool. Yields its command and variables; removes its files in the end."""
    folder = Path(make_private_folder())  # which the process may at most read
    try:
        request, own = folder / "request.json", folder / "own"
        own.mkdir()
        installed = tool.resolve().parent  # with the tool's files, unless it is the user's home or holds it
        asked = WatchedRequest(
            definition=definition,
            solution=solution,
            workload=workload,
            device=device.name,
            dataset=dataset,
            cache=solution_cache(solution),
            own=own,
            readable=[
                *toolchain_paths(),
                *([installed] if not Path.home().resolve().is_relative_to(installed) else []),
                *(tensor_files([workload], dataset) if dataset else ()),
            ],
        )
        request.write_text(asked.model_dump_json(), encoding="utf-8")
        command = python_command("fib_rmsnorm.profiling.watched_call", request)
        yield command, {**cache_variables(asked.cache), "TMPDIR": str(own)}
    finally:
        remove_private_folder(str(folder))


def run_tool(
    command: Sequence[str], timeout_s: float, solution: Solution, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a tool that calls a Solution, without secrets in its environment and without the user's terminal.

    Of what it and the Solution print, the beginning and the end are returned. In the end it is killed with all that it
    has started, whoever their parent is. Raises InputError if it cannot be started or takes too long.
    """
    deadline = time.monotonic() + timeout_s
    before = {child.pid for child in psutil.Process().children()}
    with closing(Log()) as out, closing(Log()) as err, adopt_orphans():
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
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise _describe_timeout(solution, timeout_s)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
                out.trim()
                err.trim()
        finally:
            process.kill()
            process.wait()
            kill_children(lambda child: child not in before and (os.getsid(child) == process.pid or is_marked(child)))
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
