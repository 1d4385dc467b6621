"""The shipped Triton kernels, judged in this process on all inputs of an evaluation, at any size; nothing is timed.

`python -m support.shipped_triton DEFINITION...` prints the Definitions whose kernels are wrong in Triton's interpreter,
which is chosen when Triton is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.evaluation.tensors.inputs import torch_dtype
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.schema import Definition
from support.mistakes import judge_in_process
from support.paths import REPOSITORY, TESTS

BATCH = 10  # rows of all hard kinds


def define(name: str) -> Definition:
    """The Definition of this name, of any size and dtype."""
    definition = define_by_name(name)
    assert definition, name
    return definition


def load_shipped(name: str, cache: Path) -> Callable[..., Any]:
    """The entry point of the Triton kernel that serves a Definition."""
    registry, definition = Registry(REPOSITORY), define(name)
    for path in (registry.layout.solutions / "fib-rmsnorm").rglob(MANIFEST):
        manifest = read_manifest(path)
        if manifest.spec.language.value == "triton" and any(fnmatch(name, each) for each in manifest.definitions):
            (solution,) = pack_folder(registry, path.parent, {name: definition})
            return build_entry(solution, "cpu", cache)
    raise AssertionError(f"no Triton kernel serves {name}")


def make_outputs(definition: Definition, batch: int, device: str) -> list[torch.Tensor]:
    """Outputs that are wrong until somebody writes them."""
    sizes = {**definition.const_axes, "batch": batch}
    return [
        torch.full([sizes[axis] for axis in spec.shape or ()], float("nan"), device=device).to(
            torch_dtype(spec.dtype.value)
        )
        for spec in definition.outputs.values()
    ]


def find_wrong(names: Iterable[str], folder: Path, device: str = "cpu") -> list[str]:
    """The names of the Definitions whose kernel has wrong outputs."""

    def is_wrong(name: str) -> bool:
        definition, entry = define(name), load_shipped(name, folder / name)
        (workload,) = generate_workloads(definition, [BATCH])

        def run(**inputs: Any) -> tuple[torch.Tensor, ...]:
            moved = [each.to(device) if isinstance(each, torch.Tensor) else each for each in inputs.values()]
            outputs = make_outputs(definition, inputs["x"].shape[0], device)
            entry(*moved, *outputs)
            return tuple(output.cpu() for output in outputs)

        return bool(judge_in_process(run, definition, workload, folder, is_interpreted=device == "cpu"))

    return [name for name in names if is_wrong(name)]


def find_wrong_interpreted(names: Iterable[str]) -> list[str]:
    """The same in Triton's interpreter, in a process of its own."""
    command = [sys.executable, "-m", "support.shipped_triton", *names]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(TESTS)])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(*find_wrong(sys.argv[1:], Path(scratch)))
