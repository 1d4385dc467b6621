"""Shipped Triton kernels and what `new` writes, judged in this process on all inputs of an evaluation, without a timer.

`python -m support.judged_kernels KIND DEFINITION...` prints the Definitions whose kernels are wrong in Triton's
interpreter, which is chosen when Triton is imported.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition, Solution
from support.command_line import run_python
from support.mistakes import is_entry_wrong, judge
from support.paths import REPOSITORY, TESTS, write

BATCH = 10  # rows of all hard kinds
SHIPPED = "shipped"
"""The kind of the shipped Triton kernels. Any other is the language of a starting kernel."""
SUFFIXES = {"triton": ".py", "cuda": ".cu", "cpp": ".cpp", "tilelang": ".py", "cutedsl": ".py", "python": ".py"}


def define(name: str) -> Definition:
    """The Definition of this name, of any size and dtype."""
    definition = define_by_name(name)
    assert definition, name
    return definition


def find_shipped(definition: Definition) -> Solution:
    """The Triton kernel that serves a Definition."""
    registry = Registry(REPOSITORY)
    for path in registry.layout.solutions.glob(f"fib-rmsnorm/norm/*/*_triton_row_v1/{MANIFEST}"):
        if any(fnmatch(definition.name, each) for each in read_manifest(path).definitions):
            (solution,) = pack_folder(registry, path.parent, {definition.name: definition})
            return solution
    raise AssertionError(f"no Triton kernel serves {definition.name}")


def load_shipped(name: str, cache: Path) -> Callable[..., Any]:
    """The entry point of the Triton kernel that serves a Definition."""
    return build_entry(find_shipped(define(name)), "cpu", cache)


def draft_starting_kernel(definition: Definition, language: str, folder: Path) -> Solution:
    """The Solution that `try` would make of what `new` writes."""
    file = folder / f"{definition.name}_{language}{SUFFIXES[language]}"
    write(file, make_starting_kernel(definition, language).text)
    return draft_solution(Registry(REPOSITORY), KernelFile(file), definition)


def find_wrong(kind: str, definitions: Iterable[Definition], folder: Path, device: str = "cpu") -> list[str]:
    """The names of the Definitions whose kernel of a kind has wrong outputs."""
    return [each.name for each in definitions if _is_wrong(kind, each, folder, device)]


def find_wrong_interpreted(kind: str, definitions: Iterable[Definition]) -> list[str]:
    """The same in Triton's interpreter, in a process of its own."""
    names, path = (each.name for each in definitions), os.pathsep.join([str(REPOSITORY), str(TESTS)])
    return run_python("-m", "support.judged_kernels", kind, *names, TRITON_INTERPRET="1", PYTHONPATH=path).split()


def _is_wrong(kind: str, definition: Definition, folder: Path, device: str) -> bool:
    if kind == SHIPPED:
        solution = find_shipped(definition)
    else:
        assert make_starting_kernel(definition, kind).kind == "kernel", definition.name
        solution = draft_starting_kernel(definition, kind, folder)
    entry = build_entry(solution, "cpu", folder / "cache" / definition.name)
    if solution.spec.destination_passing_style:
        is_interpreted = device == "cpu" and solution.spec.language.value == "triton"
        return is_entry_wrong(entry, definition, BATCH, folder, device=device, is_interpreted=is_interpreted)
    return bool(judge(lambda **inputs: entry(*inputs.values()), definition, folder, BATCH))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(*find_wrong(sys.argv[1], map(define, sys.argv[2:]), Path(scratch)))
