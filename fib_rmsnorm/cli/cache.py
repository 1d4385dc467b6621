"""`fib-rmsnorm cache`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root, SolutionNames, split_names
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.building.cache_contents import CachedBuilds
    from fib_rmsnorm.reports.machine import CacheContents


def command(
    action: Annotated[
        str | None, typer.Argument(metavar="[clear]", help="Delete it; default: show what it takes.")
    ] = None,
    solutions: SolutionNames = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show what is kept of builds, or delete it.

    Clear it while nothing is evaluated.
    """
    if action not in (None, "clear"):
        raise InputError(f"cache: unknown action {action!r}; the only one is: fib-rmsnorm cache clear")
    from fib_rmsnorm.building.cache import cache_folder
    from fib_rmsnorm.building.cache_contents import copy_builds, solution_builds
    from fib_rmsnorm.reports.machine import CacheContents

    folder = cache_folder().absolute()
    names = _name_keys(root, split_names(solutions))
    found = CacheContents(folder, solution_builds(folder), copy_builds(folder))
    if solutions:
        found = CacheContents(folder, [each for each in found.solutions if each.key in names], [])
    if action:
        _clear(folder, found.everything, as_json=json)
    else:
        _show(found, names, as_json=json)


def _name_keys(root: Path | None, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """The names of the registry's Solutions by the key of their builds; none without a registry."""
    from fib_rmsnorm.building.source_files import content_key
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.registry.sources.packing import read_current

    try:
        registry = Registry.find(root)
    except InputError:
        if root is not None or wanted:
            raise
        return {}
    names: dict[str, list[str]] = {}
    for solution in choose("Solution", read_current(registry).by_name.values(), lambda each: each.name, wanted):
        names.setdefault(content_key(solution), []).append(solution.name)
    return names


def _show(found: CacheContents, names: dict[str, list[str]], *, as_json: bool) -> None:
    from fib_rmsnorm.reports.machine import cache_record, describe_cache
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.data import json_text
    from fib_rmsnorm.reports.text.document import print_parts

    if as_json:
        echo(json_text(cache_record(found, names)), end="")
    else:
        print_parts(describe_cache(found, names), stdout())


def _clear(folder: Path, builds: list[CachedBuilds], *, as_json: bool) -> None:
    from fib_rmsnorm.building.cache_contents import delete
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.reports.text.units import count, format_bytes

    delete(folder, builds)
    freed = sum(each.size for each in builds)
    if as_json:
        from json import dumps

        echo(dumps({"folder": str(folder), "deleted": len(builds), "bytes": freed}, indent=2))
    else:
        echo(f"Deleted {count(len(builds), 'folder')} from {folder}: {format_bytes(freed)}")
