"""`fib-rmsnorm history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    Json,
    Root,
    check_output,
    refuse_empty,
    split_names,
)
from fib_rmsnorm.cli.reading import Traces, Versions, read_traces, wants_markdown, write_or_print


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            callback=refuse_empty,
            autocompletion=completion.solutions,
            help="Solution; or comma-separated names or globs.",
        ),
    ],
    traces: Traces = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=check_output, help="Write to this file instead; .md gives Markdown."),
    ] = None,
    definitions: DefinitionNames = None,
    devices: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Comma-separated names of devices or globs: '*H200*'.")
    ] = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show a Solution's latency over time, and which runs certainly changed it."""
    is_markdown = wants_markdown(output, as_json=json)
    from fib_rmsnorm.analysis.comparing.history import find_histories
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.reports.history import describe_histories, histories_record
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.data import json_text
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts

    found = read_traces(traces, root, definitions, name, batch_sizes, versions=Versions.ALL)
    records = choose("device with Traces", found.records, lambda r: r.hardware, split_names(devices))
    histories = find_histories(records)
    if json:
        write_or_print(json_text(histories_record(histories)), output)
    elif output is None:
        print_parts(describe_histories(histories), stdout())
    else:
        write_or_print((as_markdown if is_markdown else as_text)(describe_histories(histories)), output)
