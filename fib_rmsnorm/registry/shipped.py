"""Create a registry from the one that ships with this package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import ROOT_VARIABLE, Layout, find_root, is_registry, is_source
from fib_rmsnorm.registry.main_definition import find_main_definition, write_main_definition
from fib_rmsnorm.registry.staging import copy_new, staged_registry

_COPIED = ("workloads", "solutions", "definitions")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def shipped_registry() -> Path:
    """The registry in the installed package; in a checkout, the repository around the package.

    Raises InputError if neither exists.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_shipped", package.parent):
        if is_registry(root):
            return root
    raise InputError(f"{package} contains no registry; run: pip install --force-reinstall fib-rmsnorm")


def find_or_shipped(given: Path | None = None) -> Path:
    """The root that `find_root` finds, or that of the shipped registry if none is named or around."""
    try:
        return find_root(given)
    except InputError:
        if given is not None or os.environ.get(ROOT_VARIABLE):
            raise
        return shipped_registry()


def count_records(root: Path) -> dict[str, int]:
    """Count the Definitions, Solutions and Workloads of a registry, of which none is parsed."""
    layout = Layout(root)
    lines = [path.read_bytes().splitlines() for path in layout.workloads.rglob("*.jsonl")]
    return {
        "definitions": len(list(layout.definitions.rglob("*.json"))),
        "solutions": sum(not is_source(path, layout.solutions) for path in layout.solutions.rglob("*.json")),
        "workloads": sum(bool(line.strip()) for each in lines for line in each),
    }


def make_registry(target: Path) -> None:
    """Create a registry without Traces in `target`, an empty or new folder: all of it or nothing.

    Raises InputError if `target` is in use or cannot be written.
    """
    source = shipped_registry()
    with staged_registry(target) as staging:
        for folder in _COPIED:
            shutil.copytree(source / folder, staging / folder, False, _LEFT_OUT, copy_new, dirs_exist_ok=True)
        if main := find_main_definition(source):
            write_main_definition(staging, main)
