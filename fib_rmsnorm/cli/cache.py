"""`fib-rmsnorm cache`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root, SolutionNames, split_names
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.building.cache_contents import CachedBuilds


def command(
    action: Annotated[
        str | None, typer.Argument(metavar="[clear]", help="Delete builds; default: show what they take.")
    ] = None,
    solutions: SolutionNames = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show what builds of Solutions are kept, and where, or delete them. Clear it while nothing is evaluated."""
    if action not in (None, "clear"):
        raise InputError(f"cache: unknown action {action!r}; the only one is: fib-rmsnorm cache clear")
    from fib_rmsnorm.building.cache import cache_folder
    from fib_rmsnorm.building.cache_contents import copy_builds, solution_builds

    folder = cache_folder().absolute()
    names = _name_keys(root, split_names(solutions))
    found = solution_builds(folder)
    copies = copy_builds(folder)
    if solutions:
        found, copies = [each for each in found if each.key in names], []
    if action:
        _clear(folder, [*found, *copies], as_json=json)
    else:
        _show(folder, found, copies, names, as_json=json)


def _name_keys(root: Path | None, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """The names of the registry's Solutions by the key of their builds; none without a registry."""
    from fib_rmsnorm.analysis.solution_sources import read_solutions
    from fib_rmsnorm.building.source_files import content_key
    from fib_rmsnorm.registry import find_root
    from fib_rmsnorm.registry.selection import choose

    try:
        registry = find_root(root)
    except InputError:
        if root is not None or wanted:
            raise
        return {}
    names: dict[str, list[str]] = {}
    for solution in choose("Solution", read_solutions(registry).values(), lambda each: each.name, wanted):
        names.setdefault(content_key(solution), []).append(solution.name)
    return names


def _show(
    folder: Path,
    solutions: list[CachedBuilds],
    copies: list[CachedBuilds],
    names: dict[str, list[str]],
    *,
    as_json: bool,
) -> None:
    from fib_rmsnorm.reports.cache_listing import cache_record, describe_cache
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.document import print_parts

    if as_json:
        from json import dumps

        echo(dumps(cache_record(folder, solutions, copies, names), indent=2))
    else:
        print_parts(describe_cache(folder, solutions, copies, names), stdout())


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
        echo(f"Deleted {count(len(builds), 'folder')} of builds from {folder}: {format_bytes(freed)}")
