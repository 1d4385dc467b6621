"""A Solution's sources on disk, in a folder named for their content, and the entry point in what they become."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fib_rmsnorm.building.build_errors import BuildError
from fib_rmsnorm.schema import Solution


def content_key(solution: Solution, **context: object) -> str:
    """A hex digest of the sources and of whatever else decides what is built from them."""
    identity = {
        "sources": {source.path: source.content for source in solution.sources},
        "context": context,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:32]


def write_sources(solution: Solution, folder: Path) -> None:
    """Write the sources into `folder` unless it holds them; never half, also when two processes do it at once.

    What else it holds was put there by another solution, which has the same user's rights: it is replaced.
    """
    if _holds(folder, solution):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        written = staging / "sources"
        for source in solution.sources:  # the schema has refused paths that lead out
            path = written / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.content, encoding="utf-8")
        if folder.exists():
            folder.rename(staging / "replaced")
        written.rename(folder)
    except OSError:
        if not _holds(folder, solution):
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def find_entry(module: ModuleType, solution: Solution) -> Callable[..., Any]:
    """What the entry point names in the module made of the sources. Raises BuildError if that is no function."""
    symbol = solution.get_entry_symbol()
    entry = getattr(module, symbol, None)
    if not callable(entry):
        raise BuildError(f"{solution.get_entry_path()} defines no function {symbol!r}")
    result: Callable[..., Any] = entry
    return result


def _holds(folder: Path, solution: Solution) -> bool:
    """Whether the folder holds the sources and nothing else, byte code of other sources for one."""
    sources = {folder / source.path: source.content for source in solution.sources}
    found = {path for path in folder.rglob("*") if not path.is_dir()}
    return found == sources.keys() and all(path.read_bytes() == text.encode() for path, text in sources.items())
