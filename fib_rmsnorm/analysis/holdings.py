"""The contents of a registry: a row for each Definition, Solution or Workload, with the number of its records."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.capabilities import find_readiness
from fib_rmsnorm.machine.devices import all_devices
from fib_rmsnorm.notices import notice
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.selection import NamedWorkload
from fib_rmsnorm.schema import Trace

Row = dict[str, Any]
"""A record as `list --json` prints it."""


def definition_rows(catalogue: Catalogue) -> list[Row]:
    """A row for each Definition, with the number of its records; a variable axis has the size None."""
    solutions = Counter(solution.definition for solution in catalogue.solutions.values())
    workloads = Counter(record.definition for record in catalogue.workloads)
    traces = Counter(trace.definition for trace in catalogue.traces)
    return [
        {
            "name": name,
            "op_type": definition.op_type,
            "axes": {axis: definition.const_axes.get(axis) for axis in definition.axes},
            "solutions": solutions[name],
            "workloads": workloads[name],
            "traces": traces[name],
        }
        for name, definition in catalogue.definitions.items()
    ]


def solution_rows(catalogue: Catalogue) -> list[Row]:
    """A row for each Solution; `here` says what can be done with it on this machine.

    `traces` and `passed` count those of its content today, `earlier` those of its earlier contents.
    """
    statuses = Counter((trace.solution, catalogue.is_earlier(trace), trace.status) for trace in catalogue.traces)
    traces = Counter((trace.solution, catalogue.is_earlier(trace)) for trace in catalogue.traces)
    devices = all_devices()
    return [
        {
            "name": name,
            "language": solution.spec.language.value,
            "author": solution.author,
            "definition": solution.definition,
            "here": find_readiness(solution, devices),
            "traces": traces[name, False],
            "passed": statuses[name, False, "PASSED"],
            "earlier": traces[name, True],
        }
        for name, solution in catalogue.solutions.items()
    ]


def workload_rows(catalogue: Catalogue) -> list[Row]:
    """A row for each Workload, with the number of its Traces."""
    traces = Counter(trace.workload.uuid for trace in catalogue.traces)
    rows: list[Row] = []
    for record in catalogue.workloads:
        try:
            moved = bytes_moved(catalogue.definitions[record.definition], record.workload)
        except InputError as error:
            notice(f"{error} (skipped)")
            continue
        rows.append(
            {
                "uuid": record.workload.uuid,
                "definition": record.definition,
                "axes": record.workload.axes,
                "scalars": NamedWorkload.of(record.workload).scalars,
                "bytes_moved": moved,
                "traces": traces[record.workload.uuid],
            }
        )
    return rows


def trace_rows(traces: Iterable[Trace], catalogue: Catalogue) -> list[Row]:
    """A row for each Solution on each device model, with the number of each status.

    All is of the Solution's content today, but `earlier`; `newest` is of an earlier one where there is no other.
    """
    groups: dict[tuple[str, str, str], list[Trace]] = {}
    for trace in traces:
        groups.setdefault((trace.definition, trace.solution or "", trace.hardware), []).append(trace)
    rows: list[Row] = []
    for (definition, solution, hardware), mine in groups.items():
        today = [trace for trace in mine if not catalogue.is_earlier(trace)]
        rows.append(
            {
                "definition": definition,
                "solution": solution,
                "hardware": hardware,
                "traces": len(today),
                "statuses": dict(Counter(trace.status for trace in today).most_common()),
                "workloads": len({trace.workload.uuid for trace in today}),
                "newest": max(trace.timestamp for trace in today or mine),
                "earlier": len(mine) - len(today),
            }
        )
    return rows


ROWS: dict[str, Callable[[Catalogue], list[Row]]] = {
    "definitions": definition_rows,
    "solutions": solution_rows,
    "workloads": workload_rows,
    "traces": lambda catalogue: trace_rows(catalogue.traces, catalogue),
}
