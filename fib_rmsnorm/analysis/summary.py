"""Many Definitions at a glance: on each Workload, the fastest Solution beside the fastest peer.

A peer is a Solution by the author `baseline`; all others compete with the peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fib_rmsnorm.analysis.comparing.difference import Drift, find_difference
from fib_rmsnorm.analysis.ranking import Contest, hold_contest
from fib_rmsnorm.analysis.results import BASELINE_AUTHOR, Result, SectionResults, WorkloadResults
from fib_rmsnorm.student_t import Estimate

Verdict = Literal["faster", "slower", "no different"]


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
        """The fastest peer's latency over the fastest other's; None unless both have a trusted one."""
        own, peer = self.own.fastest, self.peers.fastest
        return find_difference([own.record], [peer.record], Drift()) if own and peer else None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the fastest Solution is faster than all peers; None if that is unknown."""
        ratio = self.times_as_fast
        if ratio is None or self.doubts:
            return None
        if ratio.low <= 1 <= ratio.high:
            return "no different"
        return "faster" if ratio.value > 1 else "slower"

    @property
    def doubts(self) -> list[str]:
        """Why the fastest of a side is not known: who may be faster, or why nobody's latency is trusted."""
        return [why for contest in (self.own, self.peers) if (why := _doubt(contest))]


def _doubt(contest: Contest) -> str | None:
    if contest.fastest or not contest.left_out:
        return contest.no_winner if contest.fastest else None
    first = contest.left_out[0]
    others = f" (and {len(contest.left_out) - 1} more)" if len(contest.left_out) > 1 else ""
    return f"{first.result.label}{others} is left out: {first.why}"


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
    have a trusted latency, or else the newest.
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
