"""Who is the fastest: a winner for each Workload under the same conditions, and a leaderboard over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fib_rmsnorm.analysis.difference import Drift, find_difference
from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.student_t import Estimate


@dataclass(frozen=True)
class Place:
    """A Solution on a Workload, and how much longer it takes than the fastest."""

    result: Result
    behind: Estimate
    """Its latency over the fastest one's, with a 95% interval."""

    @property
    def is_tied(self) -> bool:
        """Whether it may be as fast as the fastest."""
        return self.behind.low <= 1


@dataclass(frozen=True)
class Contest:
    """The trusted results on a Workload, the fastest first."""

    workload: WorkloadResults
    places: tuple[Place, ...]

    @property
    def winner(self) -> Result:
        """The fastest."""
        return self.places[0].result

    @property
    def ties(self) -> list[Result]:
        """Those that may be as fast as the winner."""
        return [place.result for place in self.places[1:] if place.is_tied]


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
    standings: tuple[Standing, ...]
    """Solutions with all Workloads come first, then those closest to the winners."""


def rank(section: SectionResults) -> Ranking:
    """Rank the trusted results of a section: one that is wrong, interpreted or SUSPECT cannot win."""
    contests = [contest for each in section.workloads if (contest := _contest(each))]
    places: dict[str, list[Place]] = {}
    for contest in contests:
        for place in contest.places:
            places.setdefault(place.result.label, []).append(place)
    standings = [_standing(label, mine) for label, mine in places.items()]
    standings.sort(key=lambda standing: (-standing.workloads, standing.mean_behind))
    return Ranking(section, tuple(contests), tuple(standings))


def _contest(workload: WorkloadResults) -> Contest | None:
    trusted = [result for result in workload.results if result.record.is_trusted]
    if not trusted:
        return None
    ranked = sorted(trusted, key=lambda result: result.record.latency_ms or 0.0)
    best = ranked[0].record
    return Contest(
        workload,
        tuple(Place(result, find_difference([best], [result.record], Drift())) for result in ranked),
    )


def _standing(label: str, places: Sequence[Place]) -> Standing:
    return Standing(
        label,
        sum(place.is_tied for place in places),
        len(places),
        math.exp(fmean(math.log(place.behind.value) for place in places)),
    )
