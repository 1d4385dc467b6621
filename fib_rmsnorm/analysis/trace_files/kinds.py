"""What Traces are chosen by: the Solution and the Workload that they are of, and the Solution's content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

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


class Content(NamedTuple):
    """A content of a Solution on a Workload."""

    definition: str
    workload: str
    solution: str
    solution_sha256: str | None

    @staticmethod
    def of(record: TraceRecord) -> Content:
        """That of a record."""
        return Content(record.definition, record.workload, record.solution, record.solution_sha256)


def newest_contents(dated: Iterable[tuple[str, Content]]) -> list[Content]:
    """The newest content of each Solution on each Workload by its timestamp; of equally new ones the last."""
    newest: dict[tuple[str, ...], tuple[str, Content]] = {}
    for timestamp, content in dated:
        *key, _ = content
        known = newest.get(tuple(key))
        if known is None or known[0] <= timestamp:
            newest[tuple(key)] = timestamp, content
    return [content for _, content in newest.values()]
