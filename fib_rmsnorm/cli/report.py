"""`fib-rmsnorm report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNamesOrMain,
    Json,
    Root,
    SolutionNames,
    check_output,
    parse_plots,
    refuse_empty,
)
from fib_rmsnorm.cli.reading import Traces, Versions, read_traces, write_or_print
from fib_rmsnorm.cli.report_format import Format, choose_format, write_parts
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.analysis.results import SectionResults
    from fib_rmsnorm.reports.page import PageSection


def command(
    traces: Traces = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Output format; default: by the suffix of --output, else table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", callback=check_output, help="Write to this file instead.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(parser=parse_plots, metavar="DIR", help="Also write PNG and SVG charts to this folder."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SOLUTION",
            autocompletion=completion.solution,
            help="Solution to compare with; default: the Python baseline.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=refuse_empty,
            autocompletion=completion.solution,
            help="Report instead how outputs differ from this Solution's (or a glob's), as bench --against recorded.",
        ),
    ] = None,
    summary: Annotated[
        bool,
        typer.Option(
            "--summary", help="Report instead one table for all Definitions: the fastest Solution and the fastest peer."
        ),
    ] = False,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Report latency, bandwidth, percent of peak, speedups, and numbers not to trust."""
    chosen = choose_format(format_, output, is_json=json)
    _refuse_mixture(against, chosen, is_summary=summary, has_more=bool(plots or baseline))

    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split

    found = read_traces(
        traces, root, definitions, solutions, batch_sizes, newest=against is None, versions=Versions.ONE
    )
    if against is not None:
        _report_differences(found, against, chosen, output)
        return
    sections = split(found.records, found.unread)
    results = find_results(sections, found.solutions, baseline, found.digests)
    if summary:
        _report_summary(results, chosen, output)
        return
    charted = _chart(found, results) if plots or chosen is Format.HTML else []
    if plots:
        _draw(charted, plots)
    if chosen is Format.HTML:
        from fib_rmsnorm.reports.page import make_page

        write_or_print(make_page(charted, found.solutions, sections.superseded), output)
    else:
        _write(chosen, output, results, sections.superseded)


def _write(chosen: Format, output: Path | None, results: list[SectionResults], superseded: int) -> None:
    from fib_rmsnorm.analysis.side_by_side import find_side_by_side
    from fib_rmsnorm.reports.results import describe_results, result_rows
    from fib_rmsnorm.reports.side_by_side import describe_side_by_side, side_by_side_records
    from fib_rmsnorm.reports.text.data import csv_text, json_text

    devices, rows = find_side_by_side(results), result_rows(results)
    if chosen is Format.CSV:
        write_or_print(csv_text(rows), output)
    elif chosen is Format.JSON:
        record = {"superseded": superseded, "results": rows, "side_by_side": side_by_side_records(devices)}
        write_or_print(json_text(record), output)
    else:
        beside = [part for each in devices for part in describe_side_by_side(each)]
        write_parts([*beside, *describe_results(results, superseded)], chosen, output)


def _refuse_mixture(against: str | None, chosen: Format, *, is_summary: bool, has_more: bool) -> None:
    """Raise InputError if a table of its own is asked for together with what it does not have."""
    if against is not None and is_summary:
        raise InputError("--against and --summary are two reports: give one of them")
    if (against is not None or is_summary) and (has_more or chosen is Format.HTML):
        option = "--summary" if is_summary else "--against"
        raise InputError(f"{option} is one table: leave out --plots, --baseline and HTML")


def _report_summary(results: list[SectionResults], chosen: Format, output: Path | None) -> None:
    from fib_rmsnorm.analysis.summary import summarize
    from fib_rmsnorm.reports.ranking import describe_summaries, summary_records
    from fib_rmsnorm.reports.text.data import csv_text, json_text

    summaries = summarize(results)
    if chosen in (Format.CSV, Format.JSON):
        as_text = csv_text if chosen is Format.CSV else json_text
        write_or_print(as_text(summary_records(summaries)), output)
    else:
        write_parts(list(describe_summaries(summaries)), chosen, output)


def _report_differences(found: TraceSet, against: str, chosen: Format, output: Path | None) -> None:
    from fib_rmsnorm.analysis.comparing.outputs import find_failures, find_output_differences
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.differences import describe_differences, describe_failures, difference_records
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.data import csv_text, json_text

    differences = find_output_differences(found.records, against, found.solutions)
    failed = describe_failures(find_failures(found.records, differences))
    definitions = read_definitions({each.record.definition for each in differences}, found.roots)
    if chosen in (Format.CSV, Format.JSON):
        as_text = csv_text if chosen is Format.CSV else json_text
        write_or_print(as_text(difference_records(differences, definitions)), output)
        for line in failed:
            stderr().print(line)
    else:
        write_parts([*describe_differences(differences, definitions), *failed], chosen, output)


def _chart(found: TraceSet, results: list[SectionResults]) -> list[PageSection]:
    from fib_rmsnorm.analysis.findings import analyze
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.charts import make_charts
    from fib_rmsnorm.reports.page import PageSection

    definitions = read_definitions({section.definition for section in results}, found.roots)
    return [PageSection(each, make_charts(each)) for each in analyze(results, definitions)]


def _draw(sections: list[PageSection], folder: Path) -> None:
    from fib_rmsnorm.reports.charts import number_series
    from fib_rmsnorm.reports.plots import draw
    from fib_rmsnorm.reports.text.console import stderr

    numbers = number_series(chart for each in sections for chart in each.charts)
    try:
        paths = [path for each in sections for path in draw(each.charts, folder, each.title, numbers)]
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
    stderr().print(f"Wrote {len(paths)} charts to {folder}")
