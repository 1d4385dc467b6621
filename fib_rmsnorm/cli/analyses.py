"""`fib-rmsnorm report`, `analyze`, `best` and `history`: what recorded Traces come to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    DefinitionNamesOrMain,
    Json,
    Root,
    SolutionNames,
    Traces,
    check_output,
    name_option,
    read_traces,
    refuse_empty,
)
from fib_rmsnorm.cli.printing import suffix_of, write_or_print, write_report
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.legend import LEGEND


def analyze(
    traces: Traces = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain results: arithmetic intensity, bottleneck, distance from the peak, scaling."""
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.roofline import analyze_sections
    from fib_rmsnorm.reports.findings import describe_findings, finding_records

    found = read_traces(traces, root, definitions, solutions, batch_sizes, shows_outdated=True)
    findings = analyze_sections(find_results(found), found.roots)
    write_report(describe_findings, finding_records, findings, is_json=json)


def best(
    traces: Traces = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the fastest Solution per Workload and device, with ties, and a leaderboard."""
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.reports.ranking import describe_rankings, ranking_records

    found = read_traces(traces, root, definitions, solutions, batch_sizes, believes_all=False)
    write_report(describe_rankings, ranking_records, find_results(found), is_json=json)


def history(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", callback=refuse_empty, help="Solution; or comma-separated names or globs."),
    ],
    traces: Traces = None,
    definitions: DefinitionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show a Solution's latency over time, and which runs certainly changed it."""
    from fib_rmsnorm.analysis.comparing.history import find_histories
    from fib_rmsnorm.reports.comparison import describe_histories, histories_record

    found = read_traces(traces, root, definitions, name, batch_sizes, all_versions=True)
    histories = find_histories(found.records)
    write_report(describe_histories, histories_record, histories, is_json=json)


def report(
    traces: Traces = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=check_output,
            help="Write to this file instead, in the format of its suffix: .txt, .md, .json or .html.",
        ),
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
    suffix = suffix_of(output)
    if json and suffix in (".md", ".html"):
        raise InputError(f"--json conflicts with the suffix of --output {output}")
    if against is not None and summary:
        raise InputError("--against and --summary are two reports: give one of them")
    if (against is not None or summary) and (baseline or suffix == ".html"):
        option = "--summary" if summary else "--against"
        raise InputError(f"{option} is one table: leave out --baseline and HTML")
    found = read_traces(traces, root, definitions, solutions, batch_sizes, shows_outdated=True)
    if against is not None:
        from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
        from fib_rmsnorm.reports.differences import describe_differences, difference_records

        differences = find_output_differences(found.records, against, found.roots)
        write_report(describe_differences, difference_records, differences, is_json=json, output=output)
        return
    from fib_rmsnorm.analysis.results import find_results

    results = find_results(found, baseline)
    if summary:
        from fib_rmsnorm.analysis.ranking import summarize
        from fib_rmsnorm.reports.ranking import describe_summaries, summary_records

        write_report(describe_summaries, summary_records, summarize(results), is_json=json, output=output)
        return
    from fib_rmsnorm.reports.results import describe_results, results_record

    if suffix == ".html":
        from fib_rmsnorm.analysis.roofline import analyze_sections
        from fib_rmsnorm.reports.charts import make_charts
        from fib_rmsnorm.reports.page import make_page

        sections = analyze_sections(results, found.roots)
        charts = list(map(make_charts, sections))
        write_or_print(make_page(sections, charts, found.solutions, found.superseded), output)
        return
    write_report(describe_results, results_record, results, found.superseded, is_json=json, output=output)


_WORDS = (f"{word}: {meaning}" for word, meaning in LEGEND.items())
EPILOGS = {"report": "\n\n".join(["Words and columns:", *_WORDS])}
"""The last paragraph of commands' help."""
