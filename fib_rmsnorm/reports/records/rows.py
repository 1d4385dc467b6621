"""What a registry holds as rows: one thing a row, the same for JSON and for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fib_rmsnorm.machine.capabilities import Readiness
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.schema import ScalarInput, Trace, trace_id


@dataclass(frozen=True)
class DefinitionRow:
    """A Definition, with the number of its records."""

    name: str
    op_type: str
    axes: dict[str, int | None]
    """Sizes; None for a variable axis."""
    solutions: int
    workloads: int
    traces: int


@dataclass(frozen=True)
class SolutionRow:
    """A Solution, what it can do on this machine, and how many evaluations of its content passed."""

    name: str
    language: str
    author: str
    definition: str
    here: Readiness
    traces: int
    passed: int
    earlier: int
    """The Traces of its earlier contents, which are not among `traces`."""


@dataclass(frozen=True)
class WorkloadRow:
    """A Workload."""

    uuid: str
    definition: str
    axes: dict[str, int]
    scalars: dict[str, float]
    bytes_moved: int
    traces: int


@dataclass(frozen=True)
class TracesRow:
    """The Traces of a Solution's content on a device model, with the number of each status."""

    definition: str
    solution: str
    hardware: str
    traces: int
    statuses: dict[str, int]
    workloads: int
    newest: str
    """The newest; where there are only Traces of earlier contents, of those."""
    earlier: int
    """The Traces of its earlier contents, which are not among `traces`."""


@dataclass(frozen=True)
class TraceRow:
    """A Trace, with the id by which `show` finds it."""

    id: str
    definition: str
    solution: str | None
    workload: str
    axes: dict[str, int]
    hardware: str
    status: str
    latency_ms: float | None
    timestamp: str


def definition_rows(catalogue: Catalogue) -> list[DefinitionRow]:
    """A row for each Definition."""
    solutions = Counter(solution.definition for solution in catalogue.solutions.values())
    workloads = Counter(record.definition for record in catalogue.workloads)
    traces = Counter(trace.definition for trace in catalogue.traces)
    return [
        DefinitionRow(
            name=name,
            op_type=definition.op_type,
            axes={axis: definition.const_axes.get(axis) for axis in definition.axes},
            solutions=solutions[name],
            workloads=workloads[name],
            traces=traces[name],
        )
        for name, definition in catalogue.definitions.items()
    ]


def solution_rows(catalogue: Catalogue, here: Mapping[str, Readiness]) -> list[SolutionRow]:
    """A row for each Solution; `here` says of each what can be done with it on this machine."""
    today, earlier = _split_by_content(catalogue.traces, catalogue)
    traces = Counter(trace.solution for trace in today)
    passes = Counter(trace.solution for trace in today if status_of(trace) == "PASSED")
    older = Counter(trace.solution for trace in earlier)
    return [
        SolutionRow(
            name=name,
            language=solution.spec.language.value,
            author=solution.author,
            definition=solution.definition,
            here=here[name],
            traces=traces[name],
            passed=passes[name],
            earlier=older[name],
        )
        for name, solution in catalogue.solutions.items()
    ]


def workload_rows(catalogue: Catalogue) -> list[WorkloadRow]:
    """A row for each Workload."""
    traces = Counter(trace.workload.uuid for trace in catalogue.traces)
    return [
        WorkloadRow(
            uuid=record.workload.uuid,
            definition=record.definition,
            axes=record.workload.axes,
            scalars=scalars_of(record),
            bytes_moved=bytes_moved(catalogue.definitions[record.definition], record.workload),
            traces=traces[record.workload.uuid],
        )
        for record in catalogue.workloads
    ]


def trace_rows(traces: Iterable[Trace], catalogue: Catalogue) -> list[TracesRow]:
    """A row for each Solution on each device model, with the number of each status."""
    groups: dict[tuple[str, str, str], list[Trace]] = {}
    for trace in traces:
        groups.setdefault((trace.definition, trace.solution or "", hardware_of(trace)), []).append(trace)
    rows = []
    for (definition, solution, hardware), mine in groups.items():
        today, earlier = _split_by_content(mine, catalogue)
        rows.append(
            TracesRow(
                definition=definition,
                solution=solution,
                hardware=hardware,
                traces=len(today),
                statuses=dict(Counter(map(status_of, today)).most_common()),
                workloads=len({trace.workload.uuid for trace in today}),
                newest=max(map(timestamp_of, today or earlier)),
                earlier=len(earlier),
            )
        )
    return rows


def _split_by_content(traces: Iterable[Trace], catalogue: Catalogue) -> tuple[list[Trace], list[Trace]]:
    """The Traces of today's contents of their Solutions, and those of earlier ones."""
    today: list[Trace] = []
    earlier: list[Trace] = []
    for trace in traces:
        (earlier if catalogue.is_earlier(trace) else today).append(trace)
    return today, earlier


def each_trace_rows(traces: Iterable[Trace]) -> list[TraceRow]:
    """A row for each Trace, with the id by which `show` finds it."""
    return [
        TraceRow(
            id=trace_id(trace),
            definition=trace.definition,
            solution=trace.solution,
            workload=trace.workload.uuid,
            axes=trace.workload.axes,
            hardware=hardware_of(trace),
            status=status_of(trace),
            latency_ms=latency_ms_of(trace),
            timestamp=timestamp_of(trace),
        )
        for trace in traces
    ]


def status_of(trace: Trace) -> str:
    """A Trace's status."""
    return trace.evaluation.status.value if trace.evaluation else ""


def hardware_of(trace: Trace) -> str:
    """The device model of a Trace."""
    return trace.evaluation.environment.hardware if trace.evaluation else ""


def timestamp_of(trace: Trace) -> str:
    """When a Trace was made."""
    return trace.evaluation.timestamp if trace.evaluation else ""


def latency_ms_of(trace: Trace) -> float | None:
    """The median latency of a Trace that passed and was timed."""
    performance = trace.evaluation.performance if trace.evaluation else None
    return (performance.latency_ms or None) if performance else None


def scalars_of(record: Trace) -> dict[str, float]:
    """The scalar inputs of a Workload."""
    inputs = record.workload.inputs.items()
    return {name: given.value for name, given in inputs if isinstance(given, ScalarInput)}
