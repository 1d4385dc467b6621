"""What a shell offers when a user presses Tab: names are read from file names, so nothing is imported or parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

from fib_rmsnorm.languages import LANGUAGES

Completer = Callable[["typer.Context", str], list[str]]


def _offer(names: Callable[[Path], Iterator[str]]) -> Completer:
    """Offer to go on with the last name of a comma-separated list; nothing where no registry is found."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        with suppress(Exception):  # a traceback would land in the middle of the user's line
            found = {name for name in names(_find_registry(context)) if name.startswith(last)}
            return [f"{before}{comma}{name}" for name in sorted(found.difference(before.split(",")))]
        return []

    return complete


def _definitions(registry: Path) -> Iterator[str]:
    return (path.stem for path in registry.glob("definitions/*/*.json"))


def _solutions(registry: Path) -> Iterator[str]:
    yield from (path.stem for path in registry.glob("solutions/*/*/*/*.json"))
    yield from (path.parent.name for path in registry.glob("solutions/*/*/*/*/solution.toml"))


def _records(registry: Path) -> Iterator[str]:
    yield from _definitions(registry)
    yield from _solutions(registry)


definitions, solutions, records = _offer(_definitions), _offer(_solutions), _offer(_records)
languages = _offer(lambda _: iter(LANGUAGES))


def _find_registry(context: typer.Context) -> Path:
    from fib_rmsnorm.errors import InputError
    from fib_rmsnorm.registry.layout import find_root
    from fib_rmsnorm.registry.shipped import shipped_registry

    root: Path | None = context.params.get("root")
    try:
        return find_root(root)
    except InputError:
        if root is not None:
            raise
        return shipped_registry()  # from which the commands that only read take Solutions then
