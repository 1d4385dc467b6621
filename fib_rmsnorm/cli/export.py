"""`fib-rmsnorm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import AuthorNames, DefinitionNames, Json, Languages, Root, SolutionNames
from fib_rmsnorm.cli.reading import read_catalogue


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write: empty or new.")],
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    authors: AuthorNames = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Export a dataset that flashinfer-bench loads. It holds every kind of record, but no sources."""
    from json import dumps

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.export import export, find_blobs
    from fib_rmsnorm.reports.exchange import count_records, counts_text
    from fib_rmsnorm.reports.text.console import echo, stdout

    registry = Registry.find(root)
    chosen = read_catalogue(registry, definitions, solutions, languages, authors)
    for sources in chosen.faulty:
        raise sources.error
    if solutions or languages or authors:
        chosen = chosen.select(definitions=sorted({solution.definition for solution in chosen.solutions.values()}))
    export(chosen, find_blobs(registry, chosen.workloads), folder)
    counts = count_records(chosen)
    if json:
        echo(dumps({"root": str(folder.resolve()), **counts}, indent=2))
    else:
        stdout().print(f"Exported to {folder}: {counts_text(counts)}")
