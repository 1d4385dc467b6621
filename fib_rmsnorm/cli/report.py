"""`fib-rmsnorm report`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Names, Root
from fib_rmsnorm.cli.reading import Traces, read_traces, write_or_print
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
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
    _write(chosen, output, results, sections.superseded)


def _write(chosen: Format, output: Path | None, results: list[SectionResults], superseded: int) -> None:
    from fib_rmsnorm.reports.console import stdout
    from fib_rmsnorm.reports.document import as_markdown, as_text, print_parts
    from fib_rmsnorm.reports.report import as_csv, as_json, describe_results

    if chosen is Format.TABLE and output is None:
        print_parts(describe_results(results, superseded), stdout())
        return
    if chosen is Format.CSV:
        text = as_csv(results)
    elif chosen is Format.JSON:
        text = as_json(results, superseded)
    else:
        text = (as_markdown if chosen is Format.MARKDOWN else as_text)(describe_results(results, superseded))
    write_or_print(text, output)
