"""Small registries for tests: RMSNorm over short rows and kernels of a few lines."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.packing import pack
from fib_rmsnorm.registry.store import read_jsonl
from fib_rmsnorm.schema import Settings, Solution, Trace

REPOSITORY = Path(__file__).parents[1]
TESTS = Path(__file__).parent

# Few and short: these tests are about what is said of an evaluation, not about its number.
QUICK = Settings(warmup_runs=1, iterations=3, num_trials=1)
QUICK_OPTIONS = ("--warmup-runs", "1", "--iterations", "3", "--num-trials", "1", "--device", "cpu")

RIGHT = """\
import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
"""
WRONG = """\
def run(x, weight, eps):
    return x * weight
"""


def make_registry(root: Path, hidden: int = 128, batch_sizes: Sequence[int] = (1, 8)) -> Registry:
    (root / "definitions").mkdir(parents=True)
    (root / "solutions").mkdir()
    registry = Registry(root)
    definition = RmsNorm().define(hidden)
    registry.write_definition(definition)
    registry.write_workloads(definition, generate_workloads(definition, batch_sizes))
    return registry


def add_sources(registry: Registry, name: str, files: dict[str, str], manifest: str | None = None) -> Path:
    """Write a folder of sources (by default of a Python solution) for the registry's only Definition."""
    definition = next(iter(registry.definitions()))
    folder = registry.layout.solutions / "tester" / "norm" / definition / name
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    (folder / "solution.toml").write_text(manifest or python_manifest(name))
    return folder


def python_manifest(name: str) -> str:
    return f"""\
name = "{name}"

[spec]
language = "python"
entry_point = "kernel.py::run"
target_hardware = ["cpu"]
destination_passing_style = false
dependencies = []
"""


def add_kernel(registry: Registry, name: str, source: str = RIGHT) -> Solution:
    """Add a Python solution of one file and pack it."""
    add_sources(registry, name, {"kernel.py": source})
    return next(solution for solution in pack_all(registry) if solution.name == name)


def copy_kernels(registry: Registry, folder: Path) -> dict[str, Solution]:
    """Copy folders of sources into the registry, pack them, and return the Solutions by folder."""
    definition = next(iter(registry.definitions()))
    home = registry.layout.solutions / folder.name / "norm" / definition
    shutil.copytree(folder, home, ignore=shutil.ignore_patterns("expected.toml", "__pycache__"))
    by_name = {solution.name: solution for solution in pack_all(registry)}
    found = {}
    for path in sorted(home.iterdir()):
        if not path.is_dir():
            continue
        prefix = folder.name.partition("_")[0]
        found[path.name] = next(s for n, s in by_name.items() if re.fullmatch(f"{prefix}_[a-z]+_{path.name}", n))
    return found


def pack_all(registry: Registry) -> list[Solution]:
    solutions = pack(registry)
    for solution in solutions:
        registry.write_solution(solution, registry.definition(solution.definition).op_type)
    return solutions


def cli_command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "fib_rmsnorm", *map(str, arguments)]


def cli_environment() -> dict[str, str]:
    path = [str(REPOSITORY), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run_cli(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        cli_command(*arguments),
        cwd=cwd,
        env=cli_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


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


def keys(traces: Sequence[Trace]) -> list[tuple[str | None, int]]:
    """(solution, batch) of each Trace."""
    return [(trace.solution, trace.workload.axes["batch"]) for trace in traces]


def printed(output: str) -> list[tuple[str, int]]:
    """(solution, batch) of each line that tells of an evaluation."""
    words = [line.split() for line in output.splitlines() if line.startswith("batch=")]
    return [(found[1], int(found[0].removeprefix("batch="))) for found in words]


def read_output(path: Path) -> list[Trace]:
    if path.suffix == ".jsonl":
        return read_jsonl(path, Trace)
    return [Trace.model_validate(record) for record in json.loads(path.read_text())]
