"""`fib-rmsnorm show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import Json, Root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from fib_rmsnorm.registry.catalogue import Catalogue
    from fib_rmsnorm.schema import Definition, Solution, Trace


def command(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.record,
            help="Name of a Definition or Solution, start of a Workload's uuid, or a Trace: SOLUTION@batch=8 (the"
            " newest) or an id from `fib-rmsnorm list traces --each`.",
        ),
    ],
    root: Root = None,
    json: Json = False,
) -> None:
    """Show a Definition, Solution, Workload or Trace in full."""
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="reading"):
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.catalogue import Catalogue, find_record
        from fib_rmsnorm.reports.text.console import echo, stdout

        catalogue = Catalogue.read(Registry.find(root))
    record = find_record(catalogue, name)
    if json:
        echo(record.model_dump_json(indent=2))
        return
    console = stdout()
    for part in _describe(record, catalogue, console):
        console.print(part)


def _describe(
    record: Definition | Solution | Trace, catalogue: Catalogue, console: Console
) -> Iterator[RenderableType]:
    from fib_rmsnorm.reports.records.record import describe_definition, describe_solution, describe_workload
    from fib_rmsnorm.reports.records.trace import describe_trace
    from fib_rmsnorm.schema import Definition, Solution

    if isinstance(record, Definition):
        return describe_definition(record, catalogue, console)
    if isinstance(record, Solution):
        from fib_rmsnorm.machine.capabilities import find_readiness
        from fib_rmsnorm.machine.devices import all_devices

        return describe_solution(record, catalogue, find_readiness(record, all_devices()), console)
    if record.evaluation is None:
        return describe_workload(record, catalogue)
    return describe_trace(record, catalogue)
