"""What Traces are chosen by: the Solution and the Workload that they are of."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.analysis.trace_record import TraceRecord


@dataclass(frozen=True)
class Kind:
    """A Solution on a Workload's axes."""

    definition: str
    solution: str
    sizes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(record: TraceRecord) -> Kind:
        """That of a record."""
        return Kind(record.definition, record.solution, tuple(record.axes.items()))

    @property
    def axes(self) -> dict[str, int]:
        """The variable axes, as a record has them."""
        return dict(self.sizes)
