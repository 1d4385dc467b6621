"""`fib-rmsnorm list`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli.options import AuthorNames, DefinitionNames, Json, Languages, Root, SolutionNames
from fib_rmsnorm.cli.reading import read_catalogue
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.catalogue import Catalogue

_KINDS = ("definitions", "solutions", "workloads", "traces")


def command(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="definitions|solutions|workloads|traces", help="What to list; default: an overview."),
    ] = None,
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    authors: AuthorNames = None,
    each: Annotated[bool, typer.Option("--each", help="With traces: one line per Trace, with its id.")] = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """List the records of the registry and show which Solutions can run on this machine."""
    _check(kind, each=each, by_solution=bool(solutions or languages or authors))
    from fib_rmsnorm.registry import Registry

    registry = Registry.find(root)
    catalogue = read_catalogue(registry, definitions, solutions, languages, authors)
    rows = _make_rows(catalogue, kind, each=each)
    if "solutions" in rows:
        _tell_faulty(catalogue)
    if json:
        from fib_rmsnorm.reports.text.console import echo
        from fib_rmsnorm.reports.text.data import json_text

        echo(json_text(rows[kind] if kind else {"root": registry.root, **rows}), end="")
    elif kind:
        _print_kind(kind, rows[kind], catalogue, registry, root, each=each)
    else:
        _print_overview(registry.root, catalogue, rows)


def _check(kind: str | None, *, each: bool, by_solution: bool) -> None:
    if kind is not None and kind not in _KINDS:
        raise InputError(f"cannot list {kind!r}: choose from {', '.join(_KINDS)}")
    if each and kind != "traces":
        raise InputError("--each works only with: fib-rmsnorm list traces")
    if by_solution and kind in ("definitions", "workloads"):
        raise InputError(f"--solutions, --languages and --authors do not filter {kind}; use --definitions")


def _make_rows(catalogue: Catalogue, kind: str | None, *, each: bool) -> dict[str, list[Any]]:
    """Return the rows of one kind, or of all kinds."""
    from fib_rmsnorm.machine.capabilities import find_readiness
    from fib_rmsnorm.machine.devices import all_devices
    from fib_rmsnorm.reports.records import listing

    rows: dict[str, list[Any]] = {}
    if kind in (None, "definitions"):
        rows["definitions"] = listing.definition_rows(catalogue)
    if kind in (None, "solutions"):
        devices = all_devices()
        here = {name: find_readiness(solution, devices) for name, solution in catalogue.solutions.items()}
        rows["solutions"] = listing.solution_rows(catalogue, here)
    if kind in (None, "workloads"):
        rows["workloads"] = listing.workload_rows(catalogue)
    if kind in (None, "traces"):
        traces = catalogue.traces
        rows["traces"] = listing.each_trace_rows(traces) if each else listing.trace_rows(traces, catalogue)
    return rows


def _tell_faulty(catalogue: Catalogue) -> None:
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.folding import Folded

    for sources in catalogue.faulty:
        stderr().print(Folded(f"Left out {sources.name}: {sources.error}", 2))


def _print_kind(
    kind: str, rows: list[Any], catalogue: Catalogue, registry: Registry, root: Path | None, *, each: bool
) -> None:
    from fib_rmsnorm.registry.selection import creating_command
    from fib_rmsnorm.reports.records.listing import table_of
    from fib_rmsnorm.reports.text.console import stderr, stdout

    if not rows:
        there = ["--root", str(root)] if root else []
        following = creating_command(kind, catalogue.definitions, *there, main=registry.main_definition)
        stderr().print(f"No {kind}; create them with: {following}")
        return
    stdout().print(table_of("each trace" if each else kind, rows))


def _print_overview(root: Path, catalogue: Catalogue, rows: dict[str, list[Any]]) -> None:
    from fib_rmsnorm.reports.records import listing
    from fib_rmsnorm.reports.text.console import stdout

    console = stdout()
    console.print(f"Registry: {root}")
    console.print()
    console.print(listing.overview_table(catalogue))
    console.print()
    console.print(listing.here_line(rows["solutions"]))
    console.print(f"More: fib-rmsnorm list {'|'.join(_KINDS)}, fib-rmsnorm show NAME")
