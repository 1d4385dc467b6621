"""The records for a bench: those of the registry, and missing ones that are made but not yet written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads, pack
from fib_rmsnorm.registry.sources.draft import DEFAULT_DEFINITION
from fib_rmsnorm.registry.workload_generation import list_undetermined
from fib_rmsnorm.schema import Definition, Solution, Workload, digest


@dataclass(frozen=True)
class BenchRecords:
    """Records by name, and Workloads by the name of their Definition."""

    root: Path
    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    workloads: dict[str, list[Workload]]
    unwritten: dict[str, Callable[[], Path]] = field(default_factory=dict)
    """Functions that write the records which the registry lacks, by a description of the record."""


def collect_records(registry: Registry) -> BenchRecords:
    """Read a registry, and make what it lacks for a bench: a Definition, packed Solutions, Workloads.

    Sources that have changed since they were packed are packed again, so that a bench evaluates what is on disk.
    """
    records = BenchRecords(registry.root, registry.definitions(), registry.solutions(), {})
    if not records.definitions and (definition := define_by_name(DEFAULT_DEFINITION)):
        records.definitions[definition.name] = definition
        records.unwritten[f"Definition {definition.name}"] = partial(registry.write_definition, definition)
    for solution in pack(registry, definitions=records.definitions):
        before = records.solutions.get(solution.name)
        if before is None or digest(before) != digest(solution):
            records.solutions[solution.name] = solution
            op_type = records.definitions[solution.definition].op_type
            records.unwritten[f"Solution {solution.name}"] = partial(registry.write_solution, solution, op_type)
    for name, definition in records.definitions.items():
        records.workloads[name] = registry.workloads(name)
        if not records.workloads[name] and not list_undetermined(definition):
            records.workloads[name] = generate_workloads(definition)
            write = partial(registry.write_workloads, definition, records.workloads[name])
            records.unwritten[f"Workloads of {name}"] = write
    return records
