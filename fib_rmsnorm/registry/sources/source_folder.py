"""Read the sources of a Solution: the files of its folder, and the shared files that its manifest includes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.sources.manifest import MANIFEST
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import SourceFile

_LEFT_OUT = {"__pycache__"}


def read_sources(
    folder: Path, include: list[str], solutions: Path, read: Callable[[Path], str] = read_text
) -> list[SourceFile]:
    """Read every source file by `read`, sorted by its path in the Solution.

    Skip the manifest, hidden files, caches, and empty files, which the schema refuses.
    """
    included = find_included(folder, include, solutions)
    files = {path.relative_to(folder): path for path in folder.rglob("*")} | {
        Path(name): path for name, path in included.items()
    }
    found = []
    for relative, path in sorted(files.items()):
        if any(part in _LEFT_OUT or part.startswith(".") for part in relative.parts):
            continue
        if path.is_symlink():
            raise InputError(f"{path}: is a link; sources must be regular files in their folder")
        if path.suffix == ".json":
            raise InputError(f"{path}: sources cannot be JSON: flashinfer-bench would read the file as a Solution")
        if not path.is_dir() and relative.as_posix() != MANIFEST:
            content = read(path)
            if content.strip():
                found.append(SourceFile(path=relative.as_posix(), content=content))
    if not found:
        raise InputError(f"{folder}: no sources beside {MANIFEST}")
    return found


def find_included(folder: Path, include: list[str], solutions: Path) -> dict[str, Path]:
    """Find the files that the folder's manifest includes, by their names in the Solution.

    An included file is packed under its own name, as if it lay in the folder. Sources and shared files therefore find
    each other by plain names, and a file can become shared without changing a Solution. Raises InputError for a file
    that is missing or a link, or whose name is taken.
    """
    found: dict[str, Path] = {}
    for path in include:
        file = solutions / path
        where = f"{folder / MANIFEST}: include: {path!r}"
        if file.name in found:
            other = found[file.name].relative_to(solutions).as_posix()
            raise InputError(f"{where} and {other!r} would both be packed as {file.name!r}")
        if (folder / file.name).exists():
            raise InputError(f"{where} would be packed as {file.name!r}, which already exists in the folder")
        if not file.is_file():
            raise InputError(f"{where}: no such file in {solutions}")
        if any(each.is_symlink() for each in (file, *file.parents[: path.count("/")])):
            raise InputError(f"{where}: is a link; included files must be regular files inside {solutions}")
        found[file.name] = file
    return found
