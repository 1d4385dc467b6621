"""What Traces are chosen by: the Solution, the Workload and the Definition that they are of, and their contents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fib_rmsnorm.analysis.decoding import TraceFacts
from fib_rmsnorm.analysis.trace_record import TraceRecord


@dataclass(frozen=True)
class Kind:
    """A Solution on a Workload's axes."""

    definition: str
    solution: str
    sizes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(record: TraceRecord | TraceFacts) -> Kind:
        """That of a record."""
        return Kind(record.definition, record.solution, tuple(record.axes.items()))

    @property
    def axes(self) -> dict[str, int]:
        """The variable axes, as a record has them."""
        return dict(self.sizes)


class DefinitionVersion(NamedTuple):
    """A content of a Definition."""

    definition: str
    definition_sha256: str

    @staticmethod
    def of(record: TraceRecord | TraceFacts) -> DefinitionVersion | None:
        """That of a record; None if it does not tell."""
        return DefinitionVersion(record.definition, record.definition_sha256) if record.definition_sha256 else None


class SeenVersion(NamedTuple):
    """A version of a Definition, how many Traces are of it, and when the newest of them was made."""

    version: DefinitionVersion
    traces: int
    newest: str


def see_versions(records: Iterable[TraceRecord]) -> Iterator[SeenVersion]:
    """Those of records."""
    return (SeenVersion(version, 1, each.timestamp) for each in records if (version := DefinitionVersion.of(each)))


class Content(NamedTuple):
    """A content of a Solution on a Workload, for a version of the Definition."""

    definition: str
    workload: str
    solution: str
    definition_sha256: str | None
    solution_sha256: str | None

    @staticmethod
    def of(record: TraceRecord | TraceFacts) -> Content:
        """That of a record."""
        return Content(
            record.definition, record.workload, record.solution, record.definition_sha256, record.solution_sha256
        )


def newest_contents(dated: Iterable[tuple[str, Content]]) -> list[Content]:
    """The newest content of each Solution on each Workload by its timestamp; of equally new ones the last."""
    newest: dict[tuple[str, ...], tuple[str, Content]] = {}
    for timestamp, content in dated:
        key = (content.definition, content.workload, content.solution)
        known = newest.get(key)
        if known is None or known[0] <= timestamp:
            newest[key] = timestamp, content
    return [content for _, content in newest.values()]
