"""`fib-rmsnorm analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import BatchSizes, DefinitionNamesOrMain, Json, Root, SolutionNames, check_output
from fib_rmsnorm.cli.reading import Traces, Versions, read_traces, wants_markdown, write_or_print


def command(
    traces: Traces = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=check_output, help="Write to this file instead; .md gives Markdown."),
    ] = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain results: arithmetic intensity, bottleneck, distance from the peak, scaling."""
    is_markdown = wants_markdown(output, as_json=json)

    from fib_rmsnorm.analysis.findings import analyze
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.findings import describe_findings, finding_records
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.data import json_text
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts

    found = read_traces(traces, root, definitions, solutions, batch_sizes, newest=True, versions=Versions.ONE)
    results = find_results(split(found.records, found.unread), found.solutions, digests=found.digests)
    names = {section.definition for section in results}
    findings = analyze(results, read_definitions(names, found.roots))
    if json:
        write_or_print(json_text(finding_records(findings)), output)
    elif output is None:
        print_parts(describe_findings(findings), stdout())
    else:
        write = as_markdown if is_markdown else as_text
        write_or_print(write(describe_findings(findings)), output)
