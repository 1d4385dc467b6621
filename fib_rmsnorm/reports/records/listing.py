"""Tables of what a registry holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.table import Table

from fib_rmsnorm.languages import ABILITIES
from fib_rmsnorm.machine.capabilities import Readiness
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.workload_titles import axes_name
from fib_rmsnorm.reports.records.rows import DefinitionRow, SolutionRow, TraceRow, TracesRow, WorkloadRow, status_of
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.reports.text.units import assignments, format_bytes, format_latency

_SHORT_UUID = 8


def definitions_table(rows: Iterable[DefinitionRow]) -> Table:
    """Definitions, with the number of records of each."""
    return plain_table(
        ("definition", "op_type", "axes", ">solutions", ">workloads", ">traces"),
        (
            (
                row.name,
                row.op_type,
                ", ".join(axis if value is None else f"{axis}={value}" for axis, value in row.axes.items()),
                str(row.solutions),
                str(row.workloads),
                str(row.traces),
            )
            for row in rows
        ),
    )


def solutions_table(rows: Iterable[SolutionRow]) -> Table:
    """Solutions, what they can do on this machine, and how many evaluations of their contents passed."""
    listed = list(rows)
    # Few registries have any, and the table is wide without.
    has_earlier = any(row.earlier for row in listed)
    return plain_table(
        (
            *("solution", "language", "author", "definition", ">traces", ">passed"),
            *((">earlier",) if has_earlier else ()),
            "here",
        ),
        (
            (
                row.name,
                row.language,
                row.author,
                row.definition,
                str(row.traces),
                str(row.passed),
                *((str(row.earlier),) if has_earlier else ()),
                here_text(row.here),
            )
            for row in listed
        ),
    )


def workloads_table(rows: Iterable[WorkloadRow]) -> Table:
    """Workloads, by the start of their uuids."""
    listed = list(rows)
    length = _unique_length([row.uuid for row in listed])
    return plain_table(
        ("workload", "definition", "axes", "scalars", ">bytes moved", ">traces"),
        (
            (
                row.uuid[:length],
                row.definition,
                assignments(row.axes),
                assignments(row.scalars),
                format_bytes(row.bytes_moved),
                str(row.traces),
            )
            for row in listed
        ),
    )


def traces_table(rows: Iterable[TracesRow]) -> Table:
    """Traces, summarised."""
    return plain_table(
        ("definition", "solution", "hardware", ">traces", ">workloads", "newest", "status"),
        (
            (
                row.definition,
                row.solution,
                row.hardware,
                str(row.traces),
                str(row.workloads),
                row.newest[:10],
                with_earlier(", ".join(f"{number} {status}" for status, number in row.statuses.items()), row.earlier),
            )
            for row in rows
        ),
    )


def each_trace_table(rows: Iterable[TraceRow]) -> Table:
    """Traces, one by one."""
    return plain_table(
        ("id", "solution", "axes", "hardware", "evaluated", "status", ">latency"),
        (
            (
                row.id,
                row.solution or "",
                assignments(row.axes),
                row.hardware,
                row.timestamp[:19].replace("T", " "),
                row.status,
                "" if row.latency_ms is None else format_latency(row.latency_ms),
            )
            for row in rows
        ),
    )


def overview_table(catalogue: Catalogue) -> Table:
    """A line for each Definition with the number of its records."""
    return plain_table(
        ("definition", "solutions", "workloads", "traces"),
        (_overview_row(catalogue, name) for name in catalogue.definitions),
    )


def _overview_row(catalogue: Catalogue, name: str) -> tuple[str, str, str, str]:
    mine = [solution for solution in catalogue.solutions.values() if solution.definition == name]
    languages = Counter(solution.spec.language.value for solution in mine)
    workloads = [record for record in catalogue.workloads if record.definition == name]
    traces = [trace for trace in catalogue.traces if trace.definition == name]
    statuses = Counter(status_of(trace) for trace in traces if not catalogue.is_earlier(trace))
    return (
        name,
        _total(languages),
        str(len(workloads)) + (f": {axes_name(workloads[0])} to {axes_name(workloads[-1])}" if workloads else ""),
        with_earlier(_total(statuses), len(traces) - statuses.total()),
    )


def with_earlier(told: str, earlier: int) -> str:
    """What is told of the Traces of today's contents, and how many there are of earlier ones, if any."""
    if not earlier:
        return told
    return f"{told} (and {earlier} of earlier contents)" if told else f"{earlier} of earlier contents"


def here_line(rows: Iterable[SolutionRow]) -> str:
    """How many Solutions can do what on this machine."""
    abilities = Counter(row.here.ability for row in rows)
    told = [f"{abilities[ability]} {word}" for ability, word in ABILITIES.items() if abilities[ability]]
    return f"Solutions on this machine: {', '.join(told) or 'none'}"


def here_text(here: Readiness) -> str:
    """What can be done with a Solution on this machine: `run on cuda`, `no: triton is missing; ...`."""
    word = ABILITIES[here.ability]
    if here.ability in ("run", "interpret"):
        return f"{word} on {', '.join(here.devices)}"
    return f"{word}: {here.note}"


def _total(parts: Counter[str]) -> str:
    told = ", ".join(f"{number} {what}" for what, number in sorted(parts.items()))
    return f"{parts.total()}: {told}" if told else "0"


def _unique_length(names: list[str]) -> int:
    """The shortest length, from that of a uuid's first group, at which the starts of `names` differ."""
    length = _SHORT_UUID
    longest = max(map(len, names), default=length)
    while length < longest and len({name[:length] for name in names}) < len(set(names)):
        length += 1
    return length
