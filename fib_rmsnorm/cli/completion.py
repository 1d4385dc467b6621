"""What a shell offers when a user presses Tab: names are read from file names, so nothing is imported or parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import typer

Completer = Callable[["typer.Context", str], list[str]]
Names = Callable[["typer.Context"], Iterator[str]]


def _one(names: Names) -> Completer:
    """Offer the names that begin like the word; nothing where no registry is found."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        with suppress(Exception):  # a traceback would land in the middle of the user's line
            return sorted({name for name in names(context) if name.startswith(incomplete)})
        return []

    return complete


def _several(names: Names) -> Completer:
    """Offer to go on with the last name of a comma-separated list, by those that it does not have."""
    complete_one = _one(names)

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        found = complete_one(context, last)
        return [f"{before}{comma}{name}" for name in found if name not in before.split(",")]

    return complete


def _languages(_: typer.Context) -> Iterator[str]:
    from fib_rmsnorm.languages import LANGUAGES

    return iter(LANGUAGES)


def _definitions(context: typer.Context) -> Iterator[str]:
    return (path.stem for path in (_find_registry(context) / "definitions").glob("*/*.json"))


def _solutions(context: typer.Context) -> Iterator[str]:
    folder = _find_registry(context) / "solutions"
    yield from (path.stem for path in folder.glob("*/*/*/*.json"))
    yield from (path.parent.name for path in folder.glob("*/*/*/*/solution.toml"))


def _authors(context: typer.Context) -> Iterator[str]:
    return (path.parts[-4] for path in (_find_registry(context) / "solutions").glob("*/*/*/*"))


def _records(context: typer.Context) -> Iterator[str]:
    return chain(_definitions(context), _solutions(context))


definition, definitions = _one(_definitions), _several(_definitions)
solution, solutions = _one(_solutions), _several(_solutions)
authors, languages = _several(_authors), _several(_languages)
record = _one(_records)


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
