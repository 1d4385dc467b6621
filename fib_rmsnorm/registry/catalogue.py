"""All records of a registry, read once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import choose, choose_solutions
from fib_rmsnorm.schema import Definition, Solution, Trace


@dataclass(frozen=True)
class Catalogue:
    """The records of a registry. A Workload is held as a Trace without a Solution, as in its file."""

    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    workloads: list[Trace]
    traces: list[Trace]

    @classmethod
    def read(cls, registry: Registry) -> Catalogue:
        """Read a registry, as it is between two changes. Raises InputError on the first bad file."""
        with locked(reading=[registry.root]):
            definitions = registry.definitions()
            workloads = [
                Trace(definition=name, workload=workload)
                for name in definitions
                for workload in registry.workloads(name)
            ]
            return cls(definitions, registry.solutions(), workloads, registry.traces())

    def select(
        self,
        definitions: Collection[str] = (),
        solutions: Collection[str] = (),
        languages: Collection[str] = (),
        authors: Collection[str] = (),
    ) -> Catalogue:
        """Keep the records that the globs match. A Trace follows its Solution, and every record its Definition.

        Raises InputError for a glob that matches nothing.
        """
        kept = choose("Definition", self.definitions.values(), lambda d: d.name, definitions)
        names = {definition.name for definition in kept}
        mine = [solution for solution in self.solutions.values() if not definitions or solution.definition in names]
        mine = choose_solutions(mine, solutions, languages, authors)
        chosen = {solution.name for solution in mine}
        by_solution = bool(solutions or languages or authors)
        return Catalogue(
            definitions={definition.name: definition for definition in kept},
            solutions={solution.name: solution for solution in mine},
            workloads=[record for record in self.workloads if record.definition in names],
            traces=[
                trace
                for trace in self.traces
                if (not definitions or trace.definition in names) and (not by_solution or trace.solution in chosen)
            ],
        )
