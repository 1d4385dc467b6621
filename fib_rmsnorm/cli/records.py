"""`fib-rmsnorm list`, `show` and `env`: what a registry and this machine hold, and one record in full."""

from __future__ import annotations

from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root, there
from fib_rmsnorm.cli.printing import answer, note, print_json, say
from fib_rmsnorm.errors import InputError

_KINDS = ("definitions", "solutions", "workloads", "traces")


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="definitions|solutions|workloads|traces", help="What to list; default: an overview."),
    ] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List the records of the registry and show which Solutions can run on this machine."""
    if kind is not None and kind not in _KINDS:
        raise InputError(f"cannot list {kind!r}: choose from {', '.join(_KINDS)}")
    from fib_rmsnorm.analysis.holdings import ROWS
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.catalogue import Catalogue
    from fib_rmsnorm.registry.selection import creating_command
    from fib_rmsnorm.reports.records import listing
    from fib_rmsnorm.reports.text.console import Folded

    registry = Registry.find(root)
    with ProgressBar(doing="reading"):
        catalogue = Catalogue.read(registry)
    rows = {each: ROWS[each](catalogue) for each in ([kind] if kind else _KINDS)}
    if "solutions" in rows:
        for sources in catalogue.faulty:
            note(f"Left out {sources.name}: {sources.error}")
    if json:
        print_json(rows[kind] if kind else {"root": registry.root, **rows})
    elif kind is None:
        say(f"Registry: {registry.root}", "", listing.table_of("definitions", rows["definitions"]), "")
        say(Folded(listing.here_line(rows["solutions"]), 2))
        say(Folded(f"More: fib-rmsnorm list {'|'.join(_KINDS)}, fib-rmsnorm show NAME", 2))
    elif rows[kind]:
        say(listing.table_of(kind, rows[kind]))
    else:
        following = creating_command(kind, catalogue.definitions, *there(root), main=registry.main_definition)
        note(f"No {kind}; create them with: {following}")


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a Definition or Solution, or SOLUTION@batch=8: its newest Trace on a Workload.",
        ),
    ],
    root: Root = None,
    json: Json = False,
) -> None:
    """Show a Definition, Solution or Trace in full."""
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="reading"):
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.catalogue import Catalogue, find_record
        from fib_rmsnorm.reports.records.trace import describe_record

        catalogue = Catalogue.read(Registry.find(root))
    record = find_record(catalogue, name)
    answer(record, describe_record(record, catalogue), is_json=json)


def env(json: Json = False) -> None:
    """Show devices, tools and versions. Says what each language can do here and what to install."""
    from fib_rmsnorm.evaluation.machine_report import report_machine
    from fib_rmsnorm.reports.records.listing import describe_machine

    machine = report_machine()
    answer(machine, describe_machine(machine), is_json=json)
