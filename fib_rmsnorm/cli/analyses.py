"""`fib-rmsnorm analyze`, `best` and `history`: what recorded Traces come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    DefinitionNamesOrMain,
    Json,
    Root,
    SolutionNames,
    refuse_empty,
)
from fib_rmsnorm.cli.printing import print_report, warn
from fib_rmsnorm.cli.reading import Traces, choose_traces, complete, find_todays, read_traces
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.analysis.results import SectionResults


def _find_results(found: TraceSet) -> list[SectionResults]:
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split

    return find_results(split(found.records, found.unread), found.solutions, digests=found.digests)


def analyze(
    traces: Traces = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain results: arithmetic intensity, bottleneck, distance from the peak, scaling."""
    from fib_rmsnorm.analysis import roofline
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.reports.findings import describe_findings, finding_records

    found = read_traces(traces, root, definitions, solutions, batch_sizes, newest=True, shows_outdated=True)
    results = _find_results(found)
    known = read_definitions({section.definition for section in results}, found.roots)
    print_report(roofline.analyze(results, known), finding_records, describe_findings, as_json=json)


def best(
    traces: Traces = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the fastest Solution per Workload and device, with ties, and a leaderboard."""
    from fib_rmsnorm.analysis.loading import find_false
    from fib_rmsnorm.analysis.ranking import rank
    from fib_rmsnorm.analysis.sections import split
    from fib_rmsnorm.reports.ranking import describe_rankings, ranking_records

    chosen = choose_traces(traces, root, definitions, solutions, batch_sizes)
    found = complete(chosen.read_newest())
    shown = (record for section in split(found.records, found.unread).sections for record in section.records)
    # Seals take longer to check than Traces to read: of all of them only where a false one would have been shown.
    if find_false(shown):
        found = complete(chosen.read())
        _leave_out_false(found)
    rankings = [rank(section) for section in _find_results(find_todays(found))]
    print_report(rankings, ranking_records, describe_rankings, as_json=json)


def _leave_out_false(found: TraceSet) -> None:
    """Leave out Traces not to believe, each of which is told on stderr. Raises InputError if none is left."""
    from fib_rmsnorm.analysis.loading import find_false
    from fib_rmsnorm.registry.selection import bench_command

    measured = {record.definition for record in found.records}
    false = find_false(found.records)
    for (path, line), origin in false.items():
        warn(f"{path}:{line}: a Trace {origin.value} (left out)")
    found.records = [record for record in found.records if (record.path, record.line) not in false]
    if not found.records:
        raise InputError(f"no Trace is left; measure again: {bench_command(measured)}")


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
    from fib_rmsnorm.reports.history import describe_histories, histories_record

    found = read_traces(traces, root, definitions, name, batch_sizes, all_versions=True)
    print_report(find_histories(found.records), histories_record, describe_histories, as_json=json)
