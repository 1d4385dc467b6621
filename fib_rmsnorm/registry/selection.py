"""Choose records by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatch
from typing import TypeVar

from fib_rmsnorm.errors import InputError

Item = TypeVar("Item")


def choose(what: str, items: Iterable[Item], name_of: Callable[[Item], str], patterns: Collection[str]) -> list[Item]:
    """Keep the items whose name matches one of the globs; no globs keep all.

    Raises InputError for a glob that matches none: a mistyped name must not look like success.
    """
    found = list(items)
    if not patterns:
        return found
    names = sorted({name_of(item) for item in found})
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise InputError(f"no {what} matches {pattern!r} (there: {', '.join(names) or 'none'})")
    return [item for item in found if any(fnmatch(name_of(item), pattern) for pattern in patterns)]
