"""All records of a registry, read once, with its Solutions as their sources are now; find one by its name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import NamedWorkload, name_others, show_name, title_workloads
from fib_rmsnorm.registry.sources.packing import FaultySources, read_current, require_packed
from fib_rmsnorm.schema import Definition, Solution, Trace, digest

_MOST_SHOWN = 5


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
    def read(cls, registry: Registry) -> "Catalogue":
        """Read a registry, as it is between two changes. Raises InputError as the registry does."""
        with locked(reading=[registry.root]):
            definitions = registry.definitions()
            workloads = [
                Trace(definition=name, workload=workload)
                for name in definitions
                for workload in registry.workloads(name)
            ]
            current = read_current(registry, definitions)
            return cls(definitions, current.by_name, workloads, registry.traces(), current.faulty)


def find_record(catalogue: Catalogue, name: str) -> Definition | Solution | Trace:
    """Find a Definition or Solution by its name, or by `SOLUTION@WORKLOAD` the newest Trace on a Workload.

    WORKLOAD is a title: `batch=8`, `batch=8,eps=0.1`.
    Raises InputError with similar names for a name that is unknown or ambiguous, and for sources that cannot be packed.
    """
    named = catalogue.definitions.get(name) or catalogue.solutions.get(name)
    if named is not None:
        return named
    owner, at, workload = name.rpartition("@")
    if at:
        return _find_on_workload(catalogue, owner, workload)
    require_packed(catalogue.faulty, [name], catalogue.solutions)
    raise _unknown(catalogue, name)


def _find_on_workload(catalogue: Catalogue, owner: str, workload: str) -> Trace:
    traces = [trace for trace in catalogue.traces if trace.solution == owner and trace.evaluation]
    if not traces and owner not in catalogue.solutions:
        raise _unknown(catalogue, f"{owner}@{workload}")
    found = [trace for trace in traces if _is_workload(trace, workload)]
    if not found:
        there = ", ".join(_names(traces)) or "none"
        raise InputError(f"{owner} has no Trace at {workload!r} (available: {there})")
    if len(names := _names(found)) > 1:
        shown = ", ".join(show_name(owner, each) for each in names[:_MOST_SHOWN])
        more = ", ..." if len(names) > _MOST_SHOWN else ""
        raise InputError(f"{f'{owner}@{workload}'!r} is ambiguous: {shown}{more}")
    return max(reversed(found), key=lambda trace: trace.timestamp)


def _names(records: Iterable[Trace]) -> list[str]:
    """One word for each Workload of the records, which tells it from the others."""
    titles = title_workloads(NamedWorkload.of(record.workload) for record in records)
    return [title.replace(" ", "") for title in titles.values()]


def _is_workload(record: Trace, name: str) -> bool:
    """Whether `name` is the Workload's title in any order: all its axes, and what else."""
    named = NamedWorkload.of(record.workload)
    parts = set(re.split(r"[,\s]+", name.strip()))
    axes, full = (set(title.split(", ")) for title in (named.title(), named.title(has_scalars=True, has_uuid=True)))
    return axes <= parts <= full


def _unknown(catalogue: Catalogue, name: str) -> InputError:
    names = [*catalogue.definitions, *catalogue.solutions]
    return InputError(f"no Definition, Solution or Trace is named {name!r} ({name_others(name, names)})")
