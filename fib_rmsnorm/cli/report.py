"""`fib-rmsnorm report`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Names, Root
from fib_rmsnorm.cli.reading import Traces, read_traces
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.analysis.results import SectionResults


class Format(str, Enum):
    """What a report is written in."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


_FORMAT_OF_SUFFIX = {".md": Format.MARKDOWN, ".csv": Format.CSV, ".json": Format.JSON}


def command(
    traces: Traces = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Default: what the suffix of --output says, else table.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="SOLUTION", help="What to compare with; default: the baseline in Python.")
    ] = None,
    definitions: Names = None,
    solutions: Names = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Report results: latency, bandwidth, how near the copy and the peak, speedups, and what not to trust."""
    if json and format_ not in (None, Format.JSON):
        raise InputError(f"--json and --format {format_.value} contradict each other")
    suffix = output.suffix.lower() if output else ""
    chosen = Format.JSON if json else format_ or _FORMAT_OF_SUFFIX.get(suffix, Format.TABLE)

    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split

    found = read_traces(traces, root, definitions, solutions)
    sections = split(found.records)
    results = find_results(sections, found.solutions, baseline)
    _write(chosen, output, found, results, sections.superseded)


def _write(
    chosen: Format, output: Path | None, found: TraceSet, results: list[SectionResults], superseded: int
) -> None:
    from fib_rmsnorm.reports import formats
    from fib_rmsnorm.reports.console import stdout

    if chosen is Format.TABLE and output is None and stdout().is_terminal:
        formats.print_tables(results, superseded, stdout())
        return
    write = {
        Format.TABLE: formats.as_text,
        Format.MARKDOWN: formats.as_markdown,
        Format.CSV: formats.as_csv,
        Format.JSON: formats.as_json,
    }[chosen]
    text = write(results, superseded)
    if output is None:
        typer.echo(text, nl=False)
        return
    from fib_rmsnorm.registry.store import write_atomic

    try:
        write_atomic(output, text)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from None
    typer.echo(f"Wrote {output}", err=True)
