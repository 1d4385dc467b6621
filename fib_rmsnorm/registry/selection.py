"""Choose records by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatch
from typing import TYPE_CHECKING, TypeVar

from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

Item = TypeVar("Item")


def choose(what: str, items: Iterable[Item], name_of: Callable[[Item], str], patterns: Collection[str]) -> list[Item]:
    """Keep the items whose name matches a glob; no globs keep all items.

    Raises InputError for a glob without a match: a mistyped name must not look like success.
    """
    found = list(items)
    if not patterns:
        return found
    names = sorted({name_of(item) for item in found})
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise InputError(f"no {what} matches {pattern!r} (available: {', '.join(names) or 'none'})")
    return [item for item in found if any(fnmatch(name_of(item), pattern) for pattern in patterns)]


def choose_solutions(
    found: Iterable[Solution], names: Collection[str], languages: Collection[str], authors: Collection[str]
) -> list[Solution]:
    """Keep the Solutions that match a glob of each kind. Raises InputError for a glob without a match."""
    chosen = choose("Solution", found, lambda s: s.name, names)
    chosen = choose("language", chosen, lambda s: s.spec.language.value, languages)
    return choose("author", chosen, lambda s: s.author, authors)
