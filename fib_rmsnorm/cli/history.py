"""`fib-rmsnorm history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    Json,
    Root,
    check_output,
    parse_plots,
    refuse_empty,
    split_names,
)
from fib_rmsnorm.cli.reading import Traces, Versions, read_traces, wants_markdown, write_or_print
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.comparing.history import Histories


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
    plots: Annotated[
        Path | None,
        typer.Option(parser=parse_plots, metavar="DIR", help="Also write a PNG and an SVG chart for each device here."),
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
    from fib_rmsnorm.reports.history import describe_histories, histories_json
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts

    found = read_traces(traces, root, definitions, name, batch_sizes, versions=Versions.ALL)
    records = choose("device with Traces", found.records, lambda r: r.hardware, split_names(devices))
    histories = find_histories(records)
    if plots:
        _draw(histories, plots)
    if json:
        write_or_print(histories_json(histories), output)
    elif output is None:
        print_parts(describe_histories(histories), stdout())
    else:
        write_or_print((as_markdown if is_markdown else as_text)(describe_histories(histories)), output)


def _draw(found: Histories, folder: Path) -> None:
    from fib_rmsnorm.reports.charts import number_series
    from fib_rmsnorm.reports.charts.over_time import over_time_chart
    from fib_rmsnorm.reports.charts.plots import draw, file_name
    from fib_rmsnorm.reports.text.console import stderr

    paths: list[Path] = []
    for each in found.histories:
        chart = over_time_chart(each)
        if chart is not None:
            prefix = file_name(f"{each.solution} on {each.hardware}")
            try:
                paths += draw([chart], folder, prefix, number_series([chart]))
            except OSError as error:
                raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
    stderr().print(f"Wrote {len(paths)} charts to {folder}")
