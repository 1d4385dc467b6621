"""The records for a bench: those of the registry, and missing ones that are made but not yet written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION
from fib_rmsnorm.registry.sources.packing import FaultySources, read_current
from fib_rmsnorm.registry.validation.records import find_broken_constraints
from fib_rmsnorm.registry.workload_generation import list_undetermined
from fib_rmsnorm.schema import Definition, Solution, Workload


@dataclass(frozen=True)
class Unwritten:
    """A record that the registry lacks."""

    what: str
    definition: str
    solution: str | None
    """None for a Definition, and for its Workloads."""
    write: Callable[[], Path]

    def is_of(self, definitions: Collection[str], solutions: Collection[str]) -> bool:
        """Whether it is of one of these Solutions, or else of one of these Definitions."""
        return self.definition in definitions if self.solution is None else self.solution in solutions


@dataclass(frozen=True)
class BenchRecords:
    """Records by name, and Workloads by the name of their Definition."""

    root: Path
    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    workloads: dict[str, list[Workload]]
    unwritten: list[Unwritten] = field(default_factory=list)
    faulty: list[FaultySources] = field(default_factory=list)
    """Sources that cannot be packed. What was packed from them earlier is not among the Solutions."""


def collect_records(registry: Registry) -> BenchRecords:
    """Read a registry, and make what it lacks for a bench: a Definition, packed Solutions, Workloads.

    Sources that have changed since they were packed are packed again, so that a bench evaluates what is on disk.
    """
    records = BenchRecords(registry.root, registry.definitions(), {}, {})

    def add(what: str, definition: Definition, solution: Solution | None, write: Callable[[], Path]) -> None:
        records.unwritten.append(Unwritten(what, definition.name, solution.name if solution else None, write))

    if not records.definitions and (default := define_by_name(DEFAULT_DEFINITION)):
        records.definitions[default.name] = default
        add(f"Definition {default.name}", default, None, partial(registry.write_definition, default))
    current = read_current(registry, records.definitions)
    records.solutions.update(current.by_name)
    records.faulty.extend(current.faulty)
    for solution in current.unpacked:
        served = records.definitions[solution.definition]
        write = partial(registry.write_solution, solution, served.op_type)
        add(f"Solution {solution.name}", served, solution, write)
    for name, definition in records.definitions.items():
        records.workloads[name] = registry.workloads(name)
        if not records.workloads[name] and not list_undetermined(definition):
            usual = generate_workloads(definition)
            records.workloads[name] = [each for each in usual if not any(find_broken_constraints(definition, each))]
            if records.workloads[name]:
                write = partial(registry.write_workloads, definition, records.workloads[name])
                add(f"Workloads of {name}", definition, None, write)
    return records
