"""`fib-rmsnorm report`, `analyze`, `best` and `history`: what recorded Traces come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    parse_latency,
    read_traces,
    refuse_empty,
)
from fib_rmsnorm.cli.printing import note, suffix_of, write_or_print, write_report
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.legend import LEGEND

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.results import SectionResults


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
    max_latency: Annotated[
        str | None,
        typer.Option(
            metavar="20us",
            help="Gate: exit with 1 if anything is certainly slower than this (20us, 0.02ms) or failed, with 2 if"
            " something was not timed, or an interval contains it.",
        ),
    ] = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> int:
    """Report latency, bandwidth, percent of peak, speedups, and numbers not to trust."""
    limit_ms = None if max_latency is None else parse_latency(max_latency)
    suffix = suffix_of(output)
    if json and suffix in (".md", ".html"):
        raise InputError(f"--json conflicts with the suffix of --output {output}")
    if against is not None and summary:
        raise InputError("--against and --summary are two reports: give one of them")
    if (against is not None or summary) and (baseline or suffix == ".html"):
        option = "--summary" if summary else "--against"
        raise InputError(f"{option} is one table: leave out --baseline and HTML")
    if (against is not None or summary) and limit_ms is not None:
        raise InputError("--max-latency judges a report of latencies: leave out --against and --summary")
    found = read_traces(traces, root, definitions, solutions, batch_sizes, shows_outdated=True)
    if against is not None:
        from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
        from fib_rmsnorm.reports.differences import describe_differences, difference_records

        differences = find_output_differences(found.records, against, found.roots)
        write_report(describe_differences, difference_records, differences, is_json=json, output=output)
        return 0
    from fib_rmsnorm.analysis.results import find_results

    results = find_results(found, baseline)
    if summary:
        from fib_rmsnorm.analysis.ranking import summarize
        from fib_rmsnorm.reports.ranking import describe_summaries, summary_records

        write_report(describe_summaries, summary_records, summarize(results), is_json=json, output=output)
        return 0
    from fib_rmsnorm.reports.results import describe_results, results_record

    if suffix == ".html":
        from fib_rmsnorm.analysis.roofline import analyze_sections
        from fib_rmsnorm.reports.charts import make_charts
        from fib_rmsnorm.reports.page import make_page

        sections = analyze_sections(results, found.roots)
        charts = list(map(make_charts, sections))
        write_or_print(make_page(sections, charts, found.solutions, found.superseded), output)
    else:
        write_report(describe_results, results_record, results, found.superseded, is_json=json, output=output)
    return 0 if limit_ms is None else _judge_latencies(results, limit_ms)


def _judge_latencies(sections: Sequence[SectionResults], limit_ms: float) -> int:
    """Say what is slower than the limit, and return the exit code.

    Raises InputError if nothing is, and something cannot be judged: that must not look like a pass.
    """
    from fib_rmsnorm.analysis.difference import find_interval
    from fib_rmsnorm.reports.text.units import format_latency

    unjudged, exceeded, limit = [], False, format_latency(limit_ms)
    for section in sections:
        for workload in section.workloads:
            for result in workload.results:
                name, interval = f"{result.label} at {workload.title}", find_interval(result.record)
                is_slower = result.record.is_native and interval and interval.low > limit_ms
                if is_slower or not result.record.passed:
                    exceeded = True
                    note(f"{name}: {f'slower than {limit}' if is_slower else result.mark}")
                elif not result.record.is_native or interval is None or interval.high > limit_ms:
                    unjudged.append(name)
    if unjudged and not exceeded:
        others = f" (and {len(unjudged) - 1} more)" if len(unjudged) > 1 else ""
        raise InputError(f"the gate cannot judge {unjudged[0]}{others}: not timed, or its interval contains {limit}")
    return int(exceeded)


_WORDS = (f"{word}: {meaning}" for word, meaning in LEGEND.items())
EPILOGS = {"report": "\n\n".join(["Words and columns:", *_WORDS])}
"""The last paragraph of commands' help."""
