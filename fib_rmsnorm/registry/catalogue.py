"""All records of a registry, read once, with its Solutions as their sources are now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import choose, choose_solutions
from fib_rmsnorm.registry.sources.packing import FaultySources, read_current
from fib_rmsnorm.schema import Definition, Solution, Trace, digest


@dataclass(frozen=True)
class Catalogue:
    """The records of a registry. A Workload is held as a Trace without a Solution, as in its file."""

    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    workloads: list[Trace]
    traces: list[Trace]
    faulty: list[FaultySources] = field(default_factory=list)
    """Sources that cannot be packed, so that their Solutions are missing."""

    def is_earlier(self, trace: Trace) -> bool:
        """Whether a Trace is of earlier contents of its Solution, so that it says nothing of today's."""
        recorded = trace.evaluation.solution_sha256 if trace.evaluation else None
        # flashinfer-bench records no digest, and of a Solution that is not here nobody knows today's.
        return recorded not in (None, self._digests.get(trace.solution or "", recorded))

    @cached_property
    def _digests(self) -> dict[str, str]:
        """The digest of each Solution that has Traces: without any there is nothing to compare it with."""
        measured = {trace.solution for trace in self.traces}
        return {name: digest(solution) for name, solution in self.solutions.items() if name in measured}

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
            current = read_current(registry, definitions)
            return cls(definitions, current.by_name, workloads, registry.traces(), current.faulty)

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
            faulty=[each for each in self.faulty if each.may_be_among(solutions)],
        )
