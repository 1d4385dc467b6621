"""The main Definition of a registry: a command is about it if it names none. `registry.toml` holds its name."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import Layout, list_definitions
from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION, name_others
from fib_rmsnorm.registry.store import read_toml, write_atomic

_KEY = "main_definition"
_COMMENT = "# The Definition that commands are about if they name none: the one that `fib-rmsnorm define` made last."
_MOST_BYTES = 1 << 20


def find_main_definition(root: Path) -> str | None:
    """The Definition that registry.toml names; without the file, the only one, else rmsnorm_d4096 if it is there.

    None if there are others alone. Raises InputError for a faulty registry.toml, and for a name that is not there.
    """
    path = Layout(root).registry_file
    there = list_definitions([root])
    if path.exists() or path.is_symlink():
        name = _read(path)
        if name not in there:
            raise InputError(f"{path}: {_KEY}: no Definition {name!r} ({name_others(name, there)})")
        return name
    if len(there) == 1:
        return there[0]
    return DEFAULT_DEFINITION if DEFAULT_DEFINITION in there else None


def write_main_definition(root: Path, name: str) -> None:
    """Make a Definition the main one. Raises InputError if registry.toml cannot be written."""
    path = Layout(root).registry_file
    with suppress(InputError):
        if _read(path) == name:
            return
    write_atomic(path, f'{_COMMENT}\n{_KEY} = "{name}"\n', root)


def _read(path: Path) -> str:
    found = read_toml(path, path.parent, _MOST_BYTES)
    if unknown := [key for key in found if key != _KEY]:
        raise InputError(f"{path}: unknown key {unknown[0]!r} (available: {_KEY})")
    name = found.get(_KEY)
    if not isinstance(name, str):
        raise InputError(f'{path}: expected {_KEY} = "NAME OF A DEFINITION"')
    return name
