"""Find the Definition that a kernel is meant for: the one that its user or author names, else the registry's main one.

Neither a file's name nor its parameters choose it: a kernel would pass by a Definition that its author did not mean.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from fib_rmsnorm.errors import InputError, blaming_kernel
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import name_others
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition

_LINE = re.compile(r"\s*(?:#|//)\s*definition:\s*(\S+)\s*")
_FIRST_LINES = 20
"""The lines of a file that may name its Definition: a licence may stand above."""


def choose_definition(registry: Registry, path: Path, asked: str | None = None) -> Definition:
    """The Definition that a kernel's file or folder is judged by: `asked`, else a named one, else the main one.

    Raises InputError if it is not in the registry, or if nothing tells which of several is meant.
    """
    if asked is not None:
        return registry.definition(asked)
    definitions, main = registry.definitions(), registry.main_definition
    names = named_definitions(registry, path, definitions) or [*definitions]
    if main not in names and len(names) != 1:
        what = f"nothing says for which Definition it is; choose with --definition ({name_others('', names)})"
        raise InputError(f"{path}: {what}")
    return definitions[main if main in names else names[0]]


def named_definitions(registry: Registry, path: Path, definitions: dict[str, Definition] | None = None) -> list[str]:
    """The Definitions that a kernel's author names; none if nothing does.

    A line of the file, such as `# definition: layernorm_d4096`; else `definitions` in the solution.toml of its folder,
    of which the one that the folder lies in comes before the others; else the one that the folder lies in. Raises
    InputError for a name that the registry lacks. `definitions` are the registry's, if they are read already.
    """
    definitions = registry.definitions() if definitions is None else definitions
    with blaming_kernel():
        lines = read_text(path).splitlines()[:_FIRST_LINES] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if found := _LINE.fullmatch(line):
            if found[1] not in definitions:
                others = name_others(found[1], definitions)
                raise InputError(f"{path}:{number}: no Definition {found[1]!r} in {registry.root} ({others})")
            return [found[1]]
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    if not (folder / MANIFEST).is_file():
        return []
    wanted = read_manifest(folder / MANIFEST).definitions
    named = [name for name in definitions if any(fnmatch(name, glob) for glob in wanted)]
    if wanted and not named:
        others = name_others(wanted[0], definitions)
        raise InputError(f"{folder / MANIFEST}: no Definition matches {', '.join(wanted)} ({others})")
    home = folder.parent.name
    return [home] if home in (named or definitions) else named


def definition_line(suffix: str, definition: str) -> str:
    """The line by which a file of this suffix names its Definition."""
    return f"{'#' if suffix == '.py' else '//'} definition: {definition}\n"
