"""Run the command as a user does: in this process or in one of its own, if need be on a terminal."""

import fcntl
import io
import json
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from fib_rmsnorm.cli import main
from fib_rmsnorm.reports.text import console
from support.paths import REPOSITORY, write

# Few and short: these tests are about what is said of an evaluation, not about its number.
QUICK_OPTIONS = ("--warmup-runs", "1", "--iterations", "3", "--num-trials", "1", "--device", "cpu")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """What it prints, which is JSON."""
        return json.loads(self.out)

    @property
    def answer(self) -> Any:
        """The same of a command that succeeded."""
        assert self.code == 0, self
        return self.json

    @property
    def refusal(self) -> str:
        """The only line of a command that was refused: it exits with 2 and prints no results."""
        return self._only_line(2)

    @property
    def kernel_fault(self) -> str:
        """The only line of a command whose kernel cannot be read: it exits with 1 and prints no results."""
        return self._only_line(1)

    def _only_line(self, code: int) -> str:
        assert (self.code, self.out) == (code, ""), self
        (line,) = self.err.splitlines()
        assert line.startswith(("fib-rmsnorm: ", '{"error": ')), line
        return line.removeprefix("fib-rmsnorm: ")

    def row(self, *words: str) -> str:
        """The only line that has all the words."""
        (line,) = [line for line in self.lines if all(word in line.split() for word in words)]
        return line


def run_here(*arguments: str | Path) -> Outcome:
    """Run a command in this process, which has imported torch: to do so again would take seconds."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["fib-rmsnorm", *map(str, arguments)])
        _forget_streams()
        with pytest.raises(SystemExit) as exit_:
            main()
    _forget_streams()
    return Outcome(int(exit_.value.code), *(stream.buffer.getvalue().decode() for stream in (out, err)))


def _forget_streams() -> None:
    console.stdout.cache_clear()
    console.stderr.cache_clear()


def cli_command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "fib_rmsnorm", *map(str, arguments)]


def cli_environment() -> dict[str, str]:
    path = [str(REPOSITORY), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


_ACTS = """\
import os, signal, sys, time


class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            {action}


sys.meta_path.insert(0, Finder())
"""


def act_on_import(folder: Path, module: str, action: str) -> str:
    """The PYTHONPATH by which a process does something when it imports a module: a line of Python."""
    write(folder / "sitecustomize.py", _ACTS.format(module=module, action=action))
    return os.pathsep.join((str(folder), cli_environment()["PYTHONPATH"]))


def run_process(
    command: Sequence[str | Path], cwd: Path | None = None, stdout: IO[str] | int = subprocess.PIPE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program. Where it is Python, it imports this repository's package by default."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**cli_environment(), **variables},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=800,
        check=False,
    )


def run_cli(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return run_process(cli_command(*arguments), **options)


def start_cli(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start a command in a process of its own, whose output comes through pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(cli_command(*arguments), env=cli_environment(), stdout=pipe, stderr=pipe, text=True)


def run_python(*arguments: str | Path, **options: Any) -> str:
    """What a Python process of its own prints; it must end with 0."""
    done = run_process([sys.executable, *map(str, arguments)], **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_on_terminal(
    *arguments: str | Path,
    cwd: Path,
    columns: int = 80,
    notes_too: bool = False,
    into_pipe: bool = False,
    term: str = "xterm-256color",
    stop_by: signal.Signals | None = None,
    code: int = 0,
) -> str:
    """What the command prints where its output is a terminal of that width, and its notes too if that is said.

    Its results may go `into_pipe` instead, which nobody reads. A signal stops it when the progress bar has moved.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # The terminal tells its size; pytest-xdist says another.
    environment = {name: value for name, value in cli_environment().items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = term
    printed = b""
    stdout = subprocess.PIPE if into_pipe else theirs
    notes = theirs if notes_too else None
    with subprocess.Popen(cli_command(*arguments), cwd=cwd, env=environment, stdout=stdout, stderr=notes) as process:
        os.close(theirs)
        with suppress(OSError):  # what Linux raises when the other side is closed
            while found := os.read(ours, 1 << 16):
                printed += found
                if stop_by and printed.count(b"preparing") > 3:
                    process.send_signal(stop_by)
                    stop_by = None
    os.close(ours)
    assert process.returncode in (0, code), printed.decode()
    return printed.decode()


def printed(output: str) -> list[tuple[str, int]]:
    """(solution, batch) of each line that tells of an evaluation."""
    words = [line.split() for line in output.splitlines() if line.startswith("batch=")]
    return [(found[1], int(found[0].removeprefix("batch="))) for found in words]
