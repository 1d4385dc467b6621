"""Start a Python process under one of NVIDIA's tools, which calls a Solution; the tools differ in what they watch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.schema import Definition, Solution, Workload

_START = """\
import importlib, os, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
importlib.import_module(sys.argv.pop(1)).main()
"""


def require_gpu(solution: Solution, device: Device, without: str) -> None:
    """Raise InputError with the message `without` for a CPU, or with the reason if the GPU cannot run the Solution."""
    if device.kind == "cpu":
        raise InputError(without)
    if reason := reason_to_skip(solution, device):
        raise InputError(f"{solution.name}: {reason}")


def write_request(
    path: Path,
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    *,
    dataset: Path | None,
    cache: Path,
) -> None:
    """Write what the process is to call to a file that `call_target` reads."""
    request = {
        "definition": definition.model_dump(mode="json"),
        "solution": solution.model_dump(mode="json"),
        "workload": workload.model_dump(mode="json"),
        "device": device.name,
        "dataset": str(dataset) if dataset else None,
        "cache": str(cache),
    }
    path.write_text(json.dumps(request), encoding="utf-8")


def python_command(module: str, *arguments: Path) -> list[str]:
    """The command that runs `main` of a module of ours, with our own `sys.path`."""
    return [sys.executable, "-c", _START, os.pathsep.join(sys.path), module, *map(str, arguments)]


def run_tool(
    command: list[str], timeout_s: float, solution: Solution, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run a tool until it ends. Raises InputError if it cannot be started or takes too long."""
    try:
        return subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{solution.name}: timed out after {timeout_s:g} s; try a longer --timeout") from None
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
