"""Many Definitions at a glance: on each Workload, the fastest Solution beside the fastest peer.

A peer is a Solution by the author `baseline`; all others compete with the peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fib_rmsnorm.analysis.comparing.difference import find_difference
from fib_rmsnorm.analysis.estimate import Estimate, RunLatency, Verdict
from fib_rmsnorm.analysis.ranking import Contest, hold_contest
from fib_rmsnorm.analysis.results import BASELINE_AUTHOR, Result, SectionResults, WorkloadResults


@dataclass(frozen=True)
class Match:
    """A Workload of a Definition: the contest of the peers, and that of all others, under the same conditions."""

    definition: str
    conditions: str
    workload: WorkloadResults
    own: Contest
    peers: Contest

    @property
    def times_as_fast(self) -> Estimate | None:
        """The fastest peer's latency over the fastest other's; None unless both have one."""
        own, peer = (RunLatency.of(each.winner.record) if each.winner else None for each in (self.own, self.peers))
        return find_difference([own], [peer]) if own and peer else None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the fastest Solution is faster than all peers; None if a side has no latency."""
        return self.times_as_fast.inverse.verdict if self.times_as_fast else None


@dataclass(frozen=True)
class Summary:
    """A device, and a match for each Workload of each Definition on it."""

    hardware: str
    matches: tuple[Match, ...]

    def count(self, verdict: Verdict) -> int:
        """The number of Workloads with that verdict."""
        return sum(match.verdict == verdict for match in self.matches)


def summarize(sections: Iterable[SectionResults]) -> list[Summary]:
    """One for each device.

    The sections of a Definition come newest first. Of a Workload in several, the newest counts in which both sides
    have a latency, or else the newest.
    """
    devices: dict[str, dict[tuple[str, str], list[Match]]] = {}
    for section in sections:
        found = devices.setdefault(section.conditions.hardware, {})
        for each in section.workloads:
            found.setdefault((section.definition, each.workload), []).append(_hold(section, each))
    return [
        Summary(hardware, tuple(sorted(map(_choose, found.values()), key=_place)))
        for hardware, found in devices.items()
    ]


def _choose(matches: list[Match]) -> Match:
    return next((match for match in matches if match.times_as_fast), matches[0])


def _place(match: Match) -> tuple[str, tuple[int, ...]]:
    """By Definition, then by size."""
    return match.definition, tuple(match.workload.results[0].record.axes.values())


def _hold(section: SectionResults, workload: WorkloadResults) -> Match:
    return Match(
        section.definition,
        section.conditions.text,
        workload,
        own=_hold_among(workload, lambda result: not _is_peer(result)),
        peers=_hold_among(workload, _is_peer),
    )


def _is_peer(result: Result) -> bool:
    return result.record.author == BASELINE_AUTHOR


def _hold_among(workload: WorkloadResults, belongs: Callable[[Result], bool]) -> Contest:
    return hold_contest(replace(workload, results=tuple(filter(belongs, workload.results))))
