"""Run one of NVIDIA's tools, and leave nothing behind that it or a Solution beneath it has started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import psutil

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.sandbox.confinement.libc import adopt_orphans
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server_process import is_marked
from fib_rmsnorm.sandbox.log import Log
from fib_rmsnorm.schema import Solution

_POLL_S = 0.1


@dataclass(frozen=True)
class ToolRun:
    """How a tool ended, and the beginning and end of what it and the Solution printed."""

    code: int
    out: str
    err: str


def run_tool(command: Sequence[str], timeout_s: float, solution: Solution, variables: Mapping[str, str]) -> ToolRun:
    """Run a tool that calls a Solution, without secrets in its environment and without the user's terminal.

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
    return ToolRun(process.returncode, out.take(), err.take())


def read_report(command: Sequence[str], timeout_s: float, solution: Solution, variables: Mapping[str, str]) -> ToolRun:
    """Run a tool that calls nothing, and return all that it prints. Raises InputError as `run_tool` does."""
    environment = {**keep_harmless(os.environ), **variables}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise _describe_timeout(solution, timeout_s) from None
    return ToolRun(run.returncode, run.stdout, run.stderr)


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


def _kill_escaped(before: Collection[int]) -> None:
    while sum(_kill_if_escaped(child) for child in psutil.Process().children() if child.pid not in before):
        pass


def _kill_descendants(process: subprocess.Popen[bytes]) -> None:
    with suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                each.kill()
    process.kill()


def _kill_if_escaped(child: psutil.Process) -> bool:
    """Kill an orphan of the tool's, whose parent we are now, if it comes from a confined process."""
    if not is_marked(child.pid):
        return False
    try:
        child.kill()
        os.waitpid(child.pid, 0)
    except (psutil.Error, OSError):
        return False
    return True
