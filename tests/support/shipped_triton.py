"""The shipped Triton kernels, judged in this process on all inputs of an evaluation, at any size; nothing is timed.

`python -m support.shipped_triton DEFINITION...` prints the Definitions whose kernels are wrong in Triton's interpreter,
which is chosen when Triton is imported.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.schema import Definition
from support.mistakes import is_entry_wrong, run_interpreted
from support.paths import REPOSITORY

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


def find_wrong(names: Iterable[str], folder: Path, device: str = "cpu") -> list[str]:
    """The names of the Definitions whose kernel has wrong outputs."""
    return [
        name
        for name in names
        if is_entry_wrong(
            load_shipped(name, folder / name),
            define(name),
            BATCH,
            folder,
            device=device,
            is_interpreted=device == "cpu",
        )
    ]


def find_wrong_interpreted(names: Iterable[str]) -> list[str]:
    """The same in Triton's interpreter, in a process of its own."""
    return run_interpreted("support.shipped_triton", *names)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(*find_wrong(sys.argv[1:], Path(scratch)))
