"""C++ Solutions of this repository, built and called in processes of their own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.cache import solution_cache
from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.registry import Registry, pack
from support.paths import REPOSITORY

SETS = ("avx512", "avx2", "neon", "portable")
"""What $FIB_RMSNORM_ISA can name. A set that this machine lacks is refused by a list of those that it has."""


def load_cpp(name: str, *, baseline: bool) -> Any:
    """Build a Solution for any processor, so that the code of all instruction sets is there, or for this one."""
    (solution,) = [solution for solution in pack(Registry(REPOSITORY)) if solution.name == name]
    if baseline and platform.machine() == "x86_64":
        spec = solution.spec.model_copy(update={"flags": ["-O3", "-march=x86-64"]})
        solution = solution.model_copy(update={"spec": spec})
    return load_native(build_native(solution, solution_cache(solution)), "run")


def run_script(script: str, **environment: str) -> str:
    """What a process of its own prints: the instruction set is chosen once, and a child is forked."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    return (done.stdout + done.stderr).strip()
