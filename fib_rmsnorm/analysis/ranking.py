"""Who is the fastest: a winner for each Workload under the same conditions, and a leaderboard over them.

A winner must have a trusted number, and nobody whose number is SUSPECT may be faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fib_rmsnorm.analysis.comparing.difference import Drift, find_difference
from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
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
class LeftOut:
    """A result that cannot win."""

    result: Result
    why: str
    may_be_fastest: bool
    """Whether its number, which is SUSPECT, does not exclude that it is faster than all trusted ones."""


@dataclass(frozen=True)
class Contest:
    """The trusted results on a Workload, the fastest first, and those left out."""

    workload: WorkloadResults
    places: tuple[Place, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def fastest(self) -> Result | None:
        """The fastest trusted result."""
        return self.places[0].result if self.places else None

    @property
    def winner(self) -> Result | None:
        """The fastest trusted result, unless one that was left out may be faster."""
        return None if self.no_winner else self.fastest

    @property
    def no_winner(self) -> str | None:
        """Why nobody wins."""
        if self.fastest is None:
            return "no Solution has a trusted latency"
        rivals = [each.result for each in self.left_out if each.may_be_fastest]
        if not rivals:
            return None
        rival = min(rivals, key=lambda result: result.record.latency_ms or math.inf)
        others = f" (and {len(rivals) - 1} more)" if len(rivals) > 1 else ""
        if (rival.record.latency_ms or math.inf) < (self.fastest.record.latency_ms or 0.0):
            return f"{rival.label}{others} is faster by its SUSPECT number"
        return f"{rival.label}{others} may be faster: its number is SUSPECT"

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
    """One for each Workload."""
    standings: tuple[Standing, ...]
    """Over the Workloads that have a winner: Solutions with all of them first, then those closest to the winners."""

    @property
    def decided(self) -> int:
        """The number of Workloads that have a winner."""
        return sum(contest.winner is not None for contest in self.contests)


def rank(section: SectionResults) -> Ranking:
    """Rank the trusted results of a section: one that is wrong, interpreted or SUSPECT cannot win."""
    contests = [hold_contest(each) for each in section.workloads]
    places: dict[str, list[Place]] = {}
    for contest in contests:
        for place in contest.places if contest.winner else ():
            places.setdefault(place.result.label, []).append(place)
    standings = [_standing(label, mine) for label, mine in places.items()]
    standings.sort(key=lambda standing: (-standing.workloads, standing.mean_behind))
    return Ranking(section, tuple(contests), tuple(standings))


def hold_contest(workload: WorkloadResults) -> Contest:
    """Order the trusted results on a Workload, and say why the others are left out."""
    doubts = {id(result): _why_left_out(result, workload) for result in workload.results}
    trusted = [result for result in workload.results if not doubts[id(result)]]
    ranked = sorted(trusted, key=lambda result: result.record.latency_ms or 0.0)
    best = ranked[0].record if ranked else None
    return Contest(
        workload,
        tuple(Place(result, find_difference([ranked[0].record], [result.record], Drift())) for result in ranked),
        tuple(
            LeftOut(result, why, bool(best and why.startswith("SUSPECT") and _may_be_faster(result.record, best)))
            for result in workload.results
            if (why := doubts[id(result)])
        ),
    )


def _why_left_out(result: Result, workload: WorkloadResults) -> str:
    """Why a result cannot win; empty if it can."""
    record = result.record
    versions = [each for each in workload.results if each.record.solution == record.solution]
    # An earlier version may have been measured later: a kernel was changed back.
    current = [each for each in versions if each.label == record.solution] or versions
    if result not in current or record.timestamp < max(each.record.timestamp for each in current):
        return "superseded by a newer version"
    if record.is_trusted:
        return ""
    if record.interpreted and record.passed:
        return "interpreted, so not timed"
    return f"SUSPECT: {'; '.join(record.suspect)}" if result.mark == "SUSPECT" else result.mark or "no latency"


def _may_be_faster(suspect: TraceRecord, best: TraceRecord) -> bool:
    """Whether it may be as fast: by its interval, or by its fast calls, which other processes disturb least."""
    if find_difference([best], [suspect], Drift()).low <= 1:
        return True
    fast_ms, best_fast_ms = suspect.latency_p5_ms, best.latency_p5_ms
    return fast_ms is not None and best_fast_ms is not None and fast_ms <= best_fast_ms


def _standing(label: str, places: Sequence[Place]) -> Standing:
    return Standing(
        label,
        sum(place.is_tied for place in places),
        len(places),
        math.exp(fmean(math.log(place.behind.value) for place in places)),
    )
