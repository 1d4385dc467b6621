"""`fib-rmsnorm best`."""

from __future__ import annotations

from fib_rmsnorm.cli.options import BatchSizes, DefinitionNames, Json, Root, SolutionNames
from fib_rmsnorm.cli.reading import Traces, read_traces


def command(
    traces: Traces = None,
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the fastest Solution per Workload and device, with ties, and a leaderboard."""
    from fib_rmsnorm.analysis.ranking import rank
    from fib_rmsnorm.analysis.results import find_results
    from fib_rmsnorm.analysis.sections import split
    from fib_rmsnorm.reports.ranking import describe_rankings, rankings_json
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.document import print_parts

    found = read_traces(traces, root, definitions, solutions, batch_sizes)
    rankings = [rank(section) for section in find_results(split(found.records), found.solutions)]
    if json:
        echo(rankings_json(rankings), end="")
    else:
        print_parts(describe_rankings(rankings), stdout())
