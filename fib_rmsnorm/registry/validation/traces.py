"""Check Traces: do the records that they name exist, unchanged?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.registry.selection import bench_command
from fib_rmsnorm.registry.validation.dataset import Dataset, Record, check_place
from fib_rmsnorm.registry.validation.finding import Finding
from fib_rmsnorm.registry.workload_generation import generating_command
from fib_rmsnorm.schema import EvaluationStatus, Solution, Trace, Workload, digest


class TraceChecker:
    """Checks all Traces of a dataset against its other records."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._layout = dataset.layout
        self._sealer = Sealer.of_this_machine()
        self._solutions: dict[str, Solution] = {record.model.name: record.model for record in dataset.solutions}
        self._digests = {name: digest(solution) for name, solution in self._solutions.items()}
        self._definition_digests = {name: digest(d) for name, d in dataset.definition_of.items()}
        self._workloads: dict[str, dict[str, Workload]] = {}
        for record in dataset.workloads:
            self._workloads.setdefault(record.model.definition, {})[record.model.workload.uuid] = record.model.workload

    def check(self) -> Iterator[Finding]:
        """Check every Trace, then the age and the coverage of each file."""
        for record in self._dataset.traces:
            yield from self._check_trace(record)
        yield from self._check_age()
        yield from self._check_coverage()

    def _check_trace(self, record: Record[Trace]) -> Iterator[Finding]:
        trace = record.model
        if trace.solution is None or trace.evaluation is None:
            yield record.error("a Trace needs both solution and evaluation; Workloads belong in workloads/")
        yield from self._check_definition(record)
        yield from self._check_solution(record)
        yield from self._check_workload(record)
        if (origin := self._sealer.find_origin(trace)).is_false:
            bench = bench_command([trace.definition], "--resume")
            yield record.error(f"{origin.value}; remove it, and measure again: {bench}")

    def _check_definition(self, record: Record[Trace]) -> Iterator[Finding]:
        name = record.model.definition
        definition = self._dataset.definition_of.get(name)
        if definition is not None:
            yield from self._check_place(record, definition.op_type)
        elif not self._dataset.may_hold(self._layout.definitions, name):
            yield record.error(f"no Definition {name!r}")

    def _check_place(self, record: Record[Trace], op_type: str) -> Iterator[Finding]:
        definition = record.model.definition
        is_published = record.path.is_relative_to(self._layout.published)
        place = (
            self._layout.published_file if is_published else partial(self._layout.trace_file, self._author_of(record))
        )
        # flashinfer-bench 0.1.2 writes Traces without an author's folder; its HEAD and this tool use one.
        yield from check_place(
            record,
            partial(place, op_type, definition),
            lambda: self._layout.traces / op_type / f"{definition}.jsonl",
        )

    def _author_of(self, record: Record[Trace]) -> str:
        """The author of a Trace's Solution; if the Solution is missing, the author's folder of the file."""
        solution = self._solutions.get(record.model.solution or "")
        return solution.author if solution else record.path.relative_to(self._layout.traces).parts[0]

    def _check_solution(self, record: Record[Trace]) -> Iterator[Finding]:
        trace = record.model
        if trace.solution is None:
            return
        solution = self._solutions.get(trace.solution)
        if solution is None:
            if not self._dataset.may_hold(self._layout.solutions, trace.solution):
                yield record.error(f"no Solution {trace.solution!r}")
        elif solution.definition != trace.definition:
            yield record.error(f"Solution {trace.solution!r} implements {solution.definition}, not {trace.definition}")

    def _check_workload(self, record: Record[Trace]) -> Iterator[Finding]:
        trace = record.model
        known = self._workloads.get(trace.definition, {}).get(trace.workload.uuid)
        if known is None:
            if not self._dataset.may_hold(self._layout.workloads, trace.definition):
                axes = ", ".join(f"{name}={value}" for name, value in trace.workload.axes.items())
                definition = self._dataset.definition_of.get(trace.definition)
                command = generating_command(definition, [trace.workload]) if definition else None
                remedy = f"; run: {command}" if command else ""
                yield record.error(f"{trace.definition} has no Workload {trace.workload.uuid} ({axes}){remedy}")
        elif known != trace.workload:
            yield record.error(f"Workload {trace.workload.uuid} differs from its record in workloads/")

    def _check_age(self) -> Iterator[Finding]:
        """Note Traces whose Solution or Definition has changed since: they are valid, but not about today's content."""
        older: Counter[tuple[Path, str]] = Counter()
        for record in self._dataset.traces:
            trace, evaluation = record.model, record.model.evaluation
            if evaluation is None or trace.solution is None:
                continue
            if evaluation.solution_sha256 not in (
                None,
                self._digests.get(trace.solution, evaluation.solution_sha256),
            ):
                older[record.path, f"Solution {trace.solution}"] += 1
            now = self._definition_digests.get(trace.definition, evaluation.definition_sha256)
            if evaluation.definition_sha256 not in (None, now):
                older[record.path, f"Definition {trace.definition}"] += 1
        for (path, what), count in older.items():
            yield self._dataset.finding("note", path, f"{_traces(count)} of another version of {what}")

    def _check_coverage(self) -> Iterator[Finding]:
        """Warn about files that upstream's reports cannot use fully: missing Workloads, or failures of the baseline."""
        files: dict[Path, list[Record[Trace]]] = {}
        for record in self._dataset.traces:
            files.setdefault(record.path, []).append(record)
        for path, records in files.items():
            definition = records[0].model.definition
            wanted = self._workloads.get(definition, {})
            missing = wanted.keys() - {record.model.workload.uuid for record in records}
            if missing:
                following = bench_command([definition], "--resume")
                message = f"no Traces for {len(missing)} of {len(wanted)} Workloads; run: {following}"
                yield self._dataset.finding("warning", path, message)
            failed = sum(self._author_of(each) == "baseline" and not _passed(each.model) for each in records)
            if failed:
                yield self._dataset.finding("warning", path, f"{_traces(failed)} of the baseline did not pass")


def _traces(count: int) -> str:
    return f"{count} Trace{'s' * (count != 1)}"


def _passed(trace: Trace) -> bool:
    return trace.evaluation is not None and trace.evaluation.status is EvaluationStatus.PASSED
