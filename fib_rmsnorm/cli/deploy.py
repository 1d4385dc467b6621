"""`fib-rmsnorm deploy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root, Traces, read_traces, split_names, there
from fib_rmsnorm.cli.printing import answer, note
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry


def command(
    traces: Traces = None,
    authors: Annotated[
        str, typer.Option(metavar="NAME,...", help="Authors whose Solutions may run in a model's process.")
    ] = "fib-rmsnorm",
    build: Annotated[
        bool, typer.Option("--build", help="Instead, build the kernels that the table names for the devices here.")
    ] = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write winners.json, by which fib_rmsnorm.nn chooses kernels; default: from the published Traces."""
    if build and traces:
        raise InputError("--build takes no Traces: it builds what winners.json names")
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.text.console import echo

    registry = Registry.find(root)
    if build:
        _pack(registry)
        _build(registry, as_json=json)
        return
    from shlex import join

    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.winners import find_deployable, make_table
    from fib_rmsnorm.deployment.winner_table import format_table
    from fib_rmsnorm.registry.selection import bench_command
    from fib_rmsnorm.registry.store import write_atomic
    from fib_rmsnorm.reports.text.units import count

    deployable = find_deployable(registry, split_names(authors))
    if not deployable.solutions:
        raise InputError(
            f"no Solution by {authors} in {registry.root} for a Definition that is named as `define` names it, such as"
            " rmsnorm_d4096; to choose among those of others, add: --authors"
        )
    if not traces and not registry.layout.published.exists():
        own = join(["fib-rmsnorm", "deploy", str(registry.layout.traces), "--authors", authors, *there(root)])
        served = {solution.definition for solution in deployable.solutions.values()}
        bench = bench_command(served, *there(root), main=registry.main_definition)
        raise InputError(f"no published Traces in {registry.root}; to choose by your own: {bench}; then run: {own}")
    found = read_traces(traces or [registry.layout.published], registry.root)
    table = make_table(find_results(found), deployable)
    text, path = format_table(table), registry.layout.winners
    if json:
        echo(text, end="")
    _pack(registry)
    write_atomic(path, text, registry.root)
    shapes = sum(len(each) for winners in table.operators.values() for each in winners.measured.values())
    note(f"Wrote {path}: {count(shapes, 'measured shape')}")
    if not shapes:
        note(f"No Trace decides: none is of Solutions by {authors}, or they failed, or have other sources today")


def _pack(registry: Registry) -> None:
    """Pack what has changed: a model reads the JSON of the Solutions that it runs."""
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.registry.sources.packing import read_current

    with locked(writing=[registry.root]):
        definitions = registry.definitions()
        for solution in read_current(registry, definitions).unpacked:
            registry.write_solution(solution, definitions[solution.definition].op_type)


def _build(registry: Registry, *, as_json: bool) -> None:
    """Build every Solution that the table names for a device here. Exits with 1 if one cannot be built."""
    from fib_rmsnorm.deployment.kernels import build_all

    outcomes = list(build_all(registry.root))
    lines = (f"{each.device}  {each.solution}: {each.error or f'built in {each.seconds:.1f} s'}" for each in outcomes)
    answer([each._asdict() for each in outcomes], lines, is_json=as_json)
    if any(each.error for each in outcomes):
        raise typer.Exit(1)
