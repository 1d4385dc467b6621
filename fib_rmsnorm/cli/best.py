"""`fib-rmsnorm best`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fib_rmsnorm.cli.options import BatchSizes, DefinitionNamesOrMain, Json, Root, SolutionNames
from fib_rmsnorm.cli.reading import Traces, choose_traces, complete, find_todays
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import DecodedTraces, TraceSet
    from fib_rmsnorm.analysis.ranking import Ranking


def command(
    traces: Traces = None,
    definitions: DefinitionNamesOrMain = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the fastest Solution per Workload and device, with ties, and a leaderboard."""
    from fib_rmsnorm.analysis.loading import find_false
    from fib_rmsnorm.analysis.sections import split
    from fib_rmsnorm.reports.ranking import describe_rankings, ranking_records
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.data import json_text
    from fib_rmsnorm.reports.text.document import print_parts

    chosen = choose_traces(traces, root, definitions, solutions, batch_sizes)
    found = complete(chosen.read_newest())
    shown = (record for section in split(found.records, found.unread).sections for record in section.records)
    # Seals take longer to check than Traces to read: of all of them only where a false one would have been shown.
    if find_false(shown):
        found = _leave_out_false(chosen)
    rankings = _rank(find_todays(found))
    if json:
        echo(json_text(ranking_records(rankings)), end="")
    else:
        print_parts(describe_rankings(rankings), stdout())


def _rank(found: TraceSet) -> list[Ranking]:
    from fib_rmsnorm.analysis.ranking import rank
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split

    sections = split(found.records, found.unread)
    return [rank(section) for section in find_results(sections, found.solutions, digests=found.digests)]


def _leave_out_false(chosen: DecodedTraces) -> TraceSet:
    """All Traces but those not to believe, each of which is told on stderr. Raises InputError if none is left."""
    from fib_rmsnorm.analysis.loading import find_false
    from fib_rmsnorm.registry.selection import bench_command
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.control_characters import one_line

    found = complete(chosen.read())
    false = find_false(found.records)
    measured = {record.definition for record in found.records}
    found.records = [record for record in found.records if (record.path, record.line) not in false]
    for (path, line), origin in false.items():
        stderr().print(f"fib-rmsnorm: {one_line(f'{path}:{line}')}: a Trace {origin.value} (left out)")
    if not found.records:
        raise InputError(f"no Trace is left; measure again: {bench_command(measured)}")
    return found
