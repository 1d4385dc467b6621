"""Check Traces: do the records that they name exist, unchanged?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.registry.selection import bench_command
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding, Record, check_place
from fib_rmsnorm.schema import Solution, Trace, digest


def check_traces(dataset: Dataset) -> Iterator[Finding]:
    """Check every Trace against the other records, and note those of other versions of what they name."""
    sealer = Sealer.of_this_machine()
    solutions = {record.model.name: record.model for record in dataset.solutions}
    workloads = {(each.model.definition, each.model.workload.uuid): each.model.workload for each in dataset.workloads}
    for record in dataset.traces:
        trace, layout = record.model, dataset.layout
        if trace.solution is None or trace.evaluation is None:
            yield record.error("a Trace needs both solution and evaluation; Workloads belong in workloads/")
        solution, definition = solutions.get(trace.solution or ""), dataset.definition_of.get(trace.definition)
        if definition is not None:
            yield from _check_place(dataset, record, definition.op_type, solution)
        elif not dataset.may_hold(layout.definitions, trace.definition):
            yield record.error(f"no Definition {trace.definition!r}")
        if solution is not None and solution.definition != trace.definition:
            yield record.error(f"Solution {trace.solution!r} implements {solution.definition}, not {trace.definition}")
        elif solution is None and trace.solution and not dataset.may_hold(layout.solutions, trace.solution):
            yield record.error(f"no Solution {trace.solution!r}")
        known = workloads.get((trace.definition, trace.workload.uuid))
        if known is None and not dataset.may_hold(layout.workloads, trace.definition):
            axes = ", ".join(f"{name}={value}" for name, value in trace.workload.axes.items())
            yield record.error(f"{trace.definition} has no Workload {trace.workload.uuid} ({axes})")
        elif known not in (None, trace.workload):
            yield record.error(f"Workload {trace.workload.uuid} differs from its record in workloads/")
        if (origin := sealer.find_origin(trace)).is_false:
            bench = bench_command([trace.definition], "--resume")
            yield record.error(f"{origin.value}; remove it, and measure again: {bench}")
    yield from _note_other_versions(dataset, solutions)


def _check_place(dataset: Dataset, record: Record[Trace], op_type: str, solution: Solution | None) -> Iterator[Finding]:
    layout, definition = dataset.layout, record.model.definition
    if record.path.is_relative_to(layout.published):
        place = layout.published_file
    else:  # of a missing Solution, the author is the one of the file's folder
        author = solution.author if solution else record.path.relative_to(layout.traces).parts[0]
        place = partial(layout.trace_file, author)
    # flashinfer-bench 0.1.2 writes Traces without an author's folder; its HEAD and this tool use one.
    flat = layout.traces / op_type / f"{definition}.jsonl"
    yield from check_place(record, partial(place, op_type, definition), lambda: flat)


def _note_other_versions(dataset: Dataset, solutions: dict[str, Solution]) -> Iterator[Finding]:
    """Note Traces whose Solution or Definition has changed since: they are valid, but not about today's content."""
    today = {("Solution", name): digest(solution) for name, solution in solutions.items()}
    today |= {("Definition", name): digest(definition) for name, definition in dataset.definition_of.items()}
    older: Counter[tuple[Path, str]] = Counter()
    for record in dataset.traces:
        trace, evaluation = record.model, record.model.evaluation
        if evaluation is None or trace.solution is None:
            continue
        measured = {
            ("Solution", trace.solution): evaluation.solution_sha256,
            ("Definition", trace.definition): evaluation.definition_sha256,
        }
        for named, recorded in measured.items():
            if recorded not in (None, today.get(named, recorded)):
                older[record.path, " ".join(named)] += 1
    for (path, what), count in older.items():
        yield dataset.finding("note", path, f"{count} Trace{'s' * (count != 1)} of another version of {what}")
