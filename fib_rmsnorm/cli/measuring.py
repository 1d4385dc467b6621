"""Measure two Solutions now, for `fib-rmsnorm compare --measure`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.trace_record import TraceRecord
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.head_to_head import HeadToHead

Sides = tuple["list[TraceRecord]", "list[TraceRecord]"]
"""The Traces of OLD and those of NEW."""


def measure_in_turn(
    old: str,
    new: str,
    entries: tuple[str | None, str | None],
    definition: str | None,
    root: Path | None,
    batch_sizes: tuple[int, ...],
    device: str,
    rounds: int,
) -> Sides:
    """Time OLD and NEW in turn, and print each evaluation on stderr; return the Traces of each.

    `entries` names the functions to call in files, `definition` what they compute. Raises InputError for what
    cannot be measured here.
    """
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar() as bar:  # shown before the imports, which take seconds
        from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head
        from fib_rmsnorm.machine.devices import choose_devices
        from fib_rmsnorm.registry import Registry

        registry = Registry.find_or_shipped(root)
        match = plan_head_to_head(registry, old, new, batch_sizes, choose_devices(device)[0], entries, definition)
        return _run_trials(bar, match, registry.root, rounds)


def _run_trials(bar: ProgressBar, match: HeadToHead, root: Path, rounds: int) -> Sides:
    from contextlib import closing

    from fib_rmsnorm.analysis.decoding import record_of
    from fib_rmsnorm.evaluation.head_to_head import run_head_to_head
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_workloads
    from fib_rmsnorm.reports.live.evaluations import folded_result
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.schema import Settings

    width = max(len(match.old.name), len(match.new.name))
    titles = title_workloads(map(NamedWorkload.of, match.workloads))
    sides: Sides = ([], [])
    bar.expect(2 * rounds * len(match.workloads))
    with closing(run_head_to_head(match, RunConfig(Settings(), 120.0, root), rounds)) as traces:
        for number, trace in enumerate(traces, start=1):
            bar.print(stderr(), folded_result(trace, width, title=titles[trace.workload.uuid]))
            bar.advance("evaluating")
            record = record_of(trace, number)
            if record is not None:
                # compare() pairs records by the Solution's name, so both sides get one name.
                record.solution = f"{match.old.name} -> {match.new.name}"
                sides[trace.solution == match.new.name].append(record)
    bar.print(stderr(), "")  # separates the measurements from the verdict
    return sides
