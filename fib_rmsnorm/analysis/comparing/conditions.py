"""The conditions that must agree before two numbers can be compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fib_rmsnorm.analysis.sections import clock_clusters
from fib_rmsnorm.analysis.trace_record import TraceRecord

DEFINITION = "definition"
"""The version of it: a changed one asks for another computation."""
CLOCK = "clock"
ASPECTS = ("device", "timer", CLOCK, "cache", DEFINITION)
"""What must agree, unless it is allowed to differ."""


@dataclass(frozen=True)
class RunConditions:
    """The conditions of runs that must agree, by aspect, in words."""

    read: dict[str, Callable[[TraceRecord], str | None]]
    """What is None is not known, and agrees with everything."""

    @staticmethod
    def of(runs: Iterable[TraceRecord], allow: Collection[str] = ()) -> RunConditions:
        """All aspects but those allowed to differ. Clocks of a cluster are one clock, so all runs must be known."""
        clusters = clock_clusters(runs)
        read: dict[str, Callable[[TraceRecord], str | None]] = {
            "device": lambda record: record.hardware,
            "timer": lambda record: record.timer or "an unrecorded timer",
            CLOCK: clusters.text,
            "cache": lambda record: {True: "cold L2", False: "warm L2", None: "an unrecorded L2 state"}[record.cold_l2],
            DEFINITION: lambda record: f"version {record.definition_sha256[:6]}" if record.definition_sha256 else None,
        }
        return RunConditions({name: each for name, each in read.items() if name not in allow})

    def key(self, run: TraceRecord) -> tuple[str | None, ...]:
        """The values of all aspects."""
        return tuple(read(run) for read in self.read.values())

    def equal_to(self, run: TraceRecord, others: Iterable[TraceRecord]) -> list[TraceRecord]:
        """Those of `others` that were measured under the conditions of `run`."""
        return [other for other in others if not self.find_differing(run, other)]

    def find_differing(self, old: TraceRecord, new: TraceRecord) -> dict[str, tuple[str, str]]:
        """Each aspect in which they differ, with both values."""
        sides = ((name, read(old), read(new)) for name, read in self.read.items())
        return {
            name: (before, after)
            for name, before, after in sides
            if before is not None and after is not None and before != after
        }

    def is_redefined(self, old: TraceRecord, new: TraceRecord) -> bool:
        """Whether they are of different versions of the Definition."""
        return DEFINITION in self.find_differing(old, new)
