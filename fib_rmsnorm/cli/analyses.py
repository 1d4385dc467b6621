"""`fib-rmsnorm report`, `analyze`, `best` and `history`: what recorded Traces come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import note, print_report
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.legend import LEGEND

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.results import SectionResults


def analyze(
    traces: options.Traces = None,
    definitions: options.DefinitionNamesOrMain = None,
    solutions: options.SolutionNames = None,
    batch_sizes: options.BatchSizes = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Explain results: arithmetic intensity, bottleneck, distance from the peak, scaling."""
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.roofline import analyze_sections
    from fib_rmsnorm.reports.findings import describe_findings, finding_records

    found = options.read_traces(traces, root, definitions, solutions, batch_sizes, shows_outdated=True)
    findings = analyze_sections(find_results(found), found.definitions)
    print_report(describe_findings, finding_records, findings, is_json=json)


def best(
    traces: options.Traces = None,
    definitions: options.DefinitionNamesOrMain = None,
    solutions: options.SolutionNames = None,
    batch_sizes: options.BatchSizes = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Show the fastest Solution per Workload and device, with ties, and a leaderboard."""
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.reports.ranking import describe_rankings, ranking_records

    found = options.read_traces(traces, root, definitions, solutions, batch_sizes, believes_all=False)
    print_report(describe_rankings, ranking_records, find_results(found), is_json=json)


def history(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", callback=options.refuse_empty, help="Solution; or comma-separated names or globs."
        ),
    ],
    traces: options.Traces = None,
    definitions: options.DefinitionNames = None,
    batch_sizes: options.BatchSizes = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Show a Solution's latency over time, and which runs certainly changed it."""
    from fib_rmsnorm.analysis.comparing.history import find_histories
    from fib_rmsnorm.reports.comparison import describe_histories, histories_record

    found = options.read_traces(traces, root, definitions, name, batch_sizes, all_versions=True)
    histories = find_histories(found.records)
    print_report(describe_histories, histories_record, histories, is_json=json)


def report(
    traces: options.Traces = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=options.check_output,
            help="Write a page for a browser, with charts, to this .html file instead.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        options.name_option(
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
    definitions: options.DefinitionNamesOrMain = None,
    solutions: options.SolutionNames = None,
    batch_sizes: options.BatchSizes = None,
    root: options.Root = None,
    json: options.Json = False,
) -> int:
    """Report latency, bandwidth, percent of peak, speedups, and numbers not to trust."""
    limit_ms = None if max_latency is None else options.parse_latency(max_latency)
    if output and (json or output.suffix.lower() != ".html"):
        raise InputError(f"--output {output} is a page for a browser, in .html; for text or JSON, redirect stdout")
    asked = {"--against": against, "--summary": summary, "--output": output}
    if len(given := [option for option, value in asked.items() if value]) > 1:
        raise InputError(f"{' and '.join(given)} are two reports: give one of them")
    if (against or summary) and limit_ms is not None:
        raise InputError("--max-latency judges a report of latencies: leave out --against and --summary")
    found = options.read_traces(traces, root, definitions, solutions, batch_sizes, shows_outdated=True)
    from fib_rmsnorm.analysis.results import find_results

    results = [] if against else find_results(found)
    if against:
        from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
        from fib_rmsnorm.reports.differences import describe_differences, difference_records

        differences = find_output_differences(found.records, against, found.definitions)
        print_report(describe_differences, difference_records, differences, is_json=json)
    elif summary:
        from fib_rmsnorm.analysis.ranking import summarize
        from fib_rmsnorm.reports.ranking import describe_summaries, summary_records

        print_report(describe_summaries, summary_records, summarize(results), is_json=json)
    elif output:
        from fib_rmsnorm.analysis.roofline import analyze_sections
        from fib_rmsnorm.registry.store import write_atomic
        from fib_rmsnorm.reports.page import make_page
        from fib_rmsnorm.reports.text.control_characters import harmless

        sections = analyze_sections(results, found.definitions)
        write_atomic(output, harmless(make_page(sections, found.solutions, found.superseded)))
        note(f"Wrote {output}")
    else:
        from fib_rmsnorm.reports.results import describe_results, results_record

        print_report(describe_results, results_record, results, found.superseded, is_json=json)
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
