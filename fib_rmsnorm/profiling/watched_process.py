"""Start a Python process under one of NVIDIA's tools, which calls a Solution; the tools differ in what they watch.

The tool is NVIDIA's and starts as it is. The process confines itself before it loads anything of others, and then has
what a worker has, and the tool's own files. The tool's two halves talk by a socket on which the process listens, so it
needs no network, and by files in the folder for temporary files, which is the process's own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry.files.tensor_files import tensor_files
from fib_rmsnorm.sandbox.fork_server_process import make_private_folder, remove_private_folder
from fib_rmsnorm.schema import Definition, Solution, Workload

_START = """\
import os, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
from fib_rmsnorm.profiling.confined_start import main
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
    """What the process only reads, or not even that: its request, and the tool's log."""
    own: Path
    """What it writes: temporary files, the tool's among them."""
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
            *map(str, _installed(tool)),
            *map(str, tensor_files([workload], dataset) if dataset else ()),
        ],
    }
    try:
        call.request.write_text(json.dumps(request), encoding="utf-8")
        yield call
    finally:
        remove_private_folder(str(folder))


def _installed(tool: Path) -> Iterator[Path]:
    """The folder that a tool lies in, links followed, unless that is the user's home or holds it."""
    folder = tool.resolve().parent
    if not Path.home().resolve().is_relative_to(folder):
        yield folder


def python_command(call: str, request: Path, *arguments: Path) -> list[str]:
    """The command that runs a function of `watched_call` in a process that confines itself, with our own `sys.path`."""
    return [sys.executable, "-c", _START, os.pathsep.join(sys.path), call, str(request), *map(str, arguments)]
