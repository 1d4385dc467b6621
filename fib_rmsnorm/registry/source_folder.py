"""What a folder of sources packs: its own files, and the shared files that its manifest includes."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import follow_links
from fib_rmsnorm.registry.manifest import MANIFEST
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import SourceFile

_LEFT_OUT = {"__pycache__"}


def read_sources(folder: Path, include: list[str], solutions: Path) -> list[SourceFile]:
    """Read every file that the folder packs, in order of its packed path.

    Left out are the manifest, hidden files, caches and empty files, which the schema refuses.
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
            raise InputError(f"{path}: no JSON among the sources: flashinfer-bench would read it as a Solution")
        if path.is_file() and relative.as_posix() != MANIFEST:
            content = read_text(path)
            if content.strip():
                found.append(SourceFile(path=relative.as_posix(), content=content))
    if not found:
        raise InputError(f"{folder}: no sources beside {MANIFEST}")
    return found


def find_included(folder: Path, include: list[str], solutions: Path) -> dict[str, Path]:
    """Find the files that the folder's manifest includes, by the name that each has in the Solution.

    That is the file's own name: an included file is packed as if it lay in the folder. So sources and shared files
    find each other by plain names, and moving a file to where it is shared changes no Solution.
    Raises InputError for a file that is missing, that a link leads to, or whose name is taken.
    """
    found: dict[str, Path] = {}
    for path in include:
        file = solutions / path
        where = f"{folder / MANIFEST}: include: {path!r}"
        if file.name in found:
            other = found[file.name].relative_to(solutions).as_posix()
            raise InputError(f"{where} and {other!r} would both be packed as {file.name!r}")
        if (folder / file.name).exists():
            raise InputError(f"{where} would be packed as {file.name!r}, which the folder holds already")
        if not file.is_file():
            raise InputError(f"{where}: no such file in {solutions}")
        if follow_links(file) != follow_links(solutions) / path:
            raise InputError(f"{where}: a link; included files must be plain files inside {solutions}")
        found[file.name] = file
    return found
