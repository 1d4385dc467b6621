"""Find the fastest: a winner for each Workload under the same conditions, and a leaderboard over them.

A tie is between those whose intervals do not tell them from the fastest. A summary shows many Definitions at a glance:
on each Workload, the fastest Solution beside the fastest peer, which is a Solution by the author `baseline`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean

from fib_rmsnorm.analysis.difference import Estimate, RunLatency, Verdict, find_difference, relate
from fib_rmsnorm.analysis.results import BASELINE_AUTHOR, Result, SectionResults, WorkloadResults


@dataclass(frozen=True)
class Place:
    """A Solution on a Workload, and how much longer it takes than the fastest."""

    result: Result
    behind: Estimate
    """Its latency over the fastest one's, with a 95% interval."""

    @property
    def is_tied(self) -> bool:
        """Whether it may be as fast as the fastest."""
        return self.behind.verdict == "tie"


@dataclass(frozen=True)
class Contest:
    """The timed results on a Workload, the fastest first, and those left out."""

    workload: WorkloadResults
    places: tuple[Place, ...]
    left_out: tuple[tuple[Result, str], ...]
    """Each with the reason why it cannot win."""

    @property
    def winner(self) -> Result | None:
        """The fastest result; None if none was timed."""
        return self.places[0].result if self.places else None

    @property
    def ties(self) -> list[Result]:
        """The Solutions that may be as fast as the winner."""
        return [place.result for place in self.places[1:] if place.is_tied]

    @property
    def apart(self) -> float | None:
        """How far the winner and those that tie could be apart; None without a tie."""
        return max((place.behind.apart for place in self.places[1:] if place.is_tied), default=None)


@dataclass(frozen=True)
class Standing:
    """A Solution over all Workloads of a section."""

    label: str
    wins: int
    """Workloads that it won, or on which it tied with the winner."""
    workloads: int
    mean_behind: float
    """Geometric mean of its latency over the fastest one's: 1 is the fastest everywhere."""


@dataclass(frozen=True)
class Ranking:
    """Winners and leaderboard of a section."""

    section: SectionResults
    contests: tuple[Contest, ...]
    """One for each Workload."""
    standings: tuple[Standing, ...]
    """Over the Workloads that have a winner: Solutions with all of them first, then those closest to the winners."""


def rank(section: SectionResults) -> Ranking:
    """Rank the results of a section: one that is wrong or interpreted cannot win."""
    contests = [hold_contest(each) for each in section.workloads]
    places: dict[str, list[Place]] = {}
    for contest in contests:
        for place in contest.places:
            places.setdefault(place.result.label, []).append(place)
    standings = [
        Standing(
            label,
            sum(place.is_tied for place in mine),
            len(mine),
            math.exp(fmean(math.log(place.behind.value) for place in mine)),
        )
        for label, mine in places.items()
    ]
    standings.sort(key=lambda standing: (-standing.workloads, standing.mean_behind))
    return Ranking(section, tuple(contests), tuple(standings))


def hold_contest(workload: WorkloadResults) -> Contest:
    """Order the timed results on a Workload, and say why the others are left out."""
    doubts = {id(result): _why_left_out(result, workload) for result in workload.results}
    timed = [
        (latency, each) for each in workload.results if not doubts[id(each)] and (latency := RunLatency.of(each.record))
    ]
    timed.sort(key=lambda one: one[0].ms)
    return Contest(
        workload,
        tuple(Place(result, find_difference([timed[0][0]], [latency])) for latency, result in timed),
        tuple((result, why) for result in workload.results if (why := doubts[id(result)])),
    )


def _why_left_out(result: Result, workload: WorkloadResults) -> str:
    """Why a result cannot win; empty if it can."""
    record = result.record
    versions = [each for each in workload.results if each.record.solution == record.solution]
    # An earlier version may have been measured later: a kernel was changed back.
    current = [each for each in versions if each.label == record.solution] or versions
    if result not in current or record.timestamp < max(each.record.timestamp for each in current):
        return "replaced by a newer version"
    if record.is_native:
        return ""
    if record.interpreted and record.passed:
        return "interpreted, so not timed"
    return result.mark or "no latency"


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
        own, peer = (each.winner.record if each.winner else None for each in (self.own, self.peers))
        return relate(own, peer)

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
            peers = tuple(result for result in each.results if result.record.author == BASELINE_AUTHOR)
            others = tuple(result for result in each.results if result.record.author != BASELINE_AUTHOR)
            contests = [hold_contest(replace(each, results=results)) for results in (others, peers)]
            match = Match(section.definition, section.conditions.text, each, *contests)
            found.setdefault((match.definition, each.workload), []).append(match)
    summaries = []
    for hardware, found in devices.items():
        matches = [next((match for match in mine if match.times_as_fast), mine[0]) for mine in found.values()]
        # By Definition, then by size.
        matches.sort(key=lambda each: (each.definition, tuple(each.workload.results[0].record.axes.values())))
        summaries.append(Summary(hardware, tuple(matches)))
    return summaries
