"""`fib-rmsnorm report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNamesOrMain,
    Json,
    Root,
    SolutionNames,
    check_output,
    name_option,
    parse_folder,
)
from fib_rmsnorm.cli.printing import Format, choose_format, note, write_or_print, write_report
from fib_rmsnorm.cli.reading import Traces, read_traces
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.legend import LEGEND

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
        typer.Option(parser=parse_folder, metavar="DIR", help="Also write PNG and SVG charts to this folder."),
    ] = None,
    baseline: Annotated[
        str | None,
        name_option("--baseline", "Solution to compare with; default: the Python baseline.", "SOLUTION"),
    ] = None,
    against: Annotated[
        str | None,
        name_option(
            "--against",
            "Report instead how outputs differ from this Solution's (or a glob's), as bench --against recorded.",
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
    if against is not None and summary:
        raise InputError("--against and --summary are two reports: give one of them")
    if (against is not None or summary) and (plots or baseline or chosen is Format.HTML):
        option = "--summary" if summary else "--against"
        raise InputError(f"{option} is one table: leave out --plots, --baseline and HTML")
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split

    found = read_traces(traces, root, definitions, solutions, batch_sizes, newest=against is None, shows_outdated=True)
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
        _report_results(results, sections.superseded, chosen, output)


EPILOG = "\n\n".join(["Words and columns:", *(f"{word}: {meaning}" for word, meaning in LEGEND.items())])
"""What the help ends with."""


def _report_results(results: list[SectionResults], superseded: int, chosen: Format, output: Path | None) -> None:
    from fib_rmsnorm.reports.results import describe_results, result_rows

    parts = partial(describe_results, results, superseded)
    write_report(chosen, output, parts, partial(result_rows, results), superseded=superseded)


def _report_summary(results: list[SectionResults], chosen: Format, output: Path | None) -> None:
    from fib_rmsnorm.analysis.ranking import summarize
    from fib_rmsnorm.reports.ranking import describe_summaries, summary_records

    summaries = summarize(results)
    write_report(chosen, output, partial(describe_summaries, summaries), partial(summary_records, summaries))


def _report_differences(found: TraceSet, against: str, chosen: Format, output: Path | None) -> None:
    from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.differences import describe_differences, difference_records

    differences = find_output_differences(found.records, against)
    definitions = read_definitions({each.record.definition for each in differences}, found.roots)
    write_report(
        chosen,
        output,
        partial(describe_differences, differences, definitions),
        partial(difference_records, differences, definitions),
    )


def _chart(found: TraceSet, results: list[SectionResults]) -> list[PageSection]:
    from fib_rmsnorm.analysis.roofline import analyze
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.charts import make_charts
    from fib_rmsnorm.reports.page import PageSection

    definitions = read_definitions({section.definition for section in results}, found.roots)
    return [PageSection(each, make_charts(each)) for each in analyze(results, definitions)]


def _draw(sections: list[PageSection], folder: Path) -> None:
    from fib_rmsnorm.reports.charts import number_series
    from fib_rmsnorm.reports.plots import draw

    numbers = number_series(chart for each in sections for chart in each.charts)
    try:
        paths = [path for each in sections for path in draw(each.charts, folder, each.title, numbers)]
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
    note(f"Wrote {len(paths)} charts to {folder}")
