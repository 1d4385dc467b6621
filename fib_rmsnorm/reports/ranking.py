"""Winners and leaderboards as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.ranking import Contest, Ranking
from fib_rmsnorm.reports.results import section_title
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_latency, format_percent, format_ratio


def describe_rankings(rankings: Sequence[Ranking]) -> Iterator[Part]:
    """The winner of each Workload, and the leaderboard, section by section."""
    for ranking in rankings:
        yield Heading(section_title(ranking.section))
        if not ranking.contests:
            yield "No winner: no Solution has a trusted latency here."
            continue
        yield Grid(
            ("workload", "winner", ">latency", ">of copy", ">baseline", "tied with"),
            [_contest_row(contest) for contest in ranking.contests],
        )
        yield Grid(
            ("place", "solution", ">behind", ">won or tied"),
            [
                (
                    f"{place}." if each.workloads == len(ranking.contests) else "",
                    each.label,
                    f"{each.mean_behind - 1:+.1%}",
                    f"{each.wins} of {each.workloads}",
                )
                for place, each in enumerate(ranking.standings, start=1)
            ],
            title="Leaderboard",
        )
        yield (
            "Tied: the 95% interval of the ratio to the winner, with what medians drift from run to run, holds"
            " 1. Behind: latency over the winner's, as the geometric mean over the Workloads; only who has a"
            " trusted number on all of them has a place."
        )


def _contest_row(contest: Contest) -> Sequence[str]:
    record, over = contest.winner.record, contest.winner.over_baseline
    return (
        contest.workload.title,
        contest.winner.label,
        format_latency(record.latency_ms or 0.0),
        format_percent(record.percent_of_copy) if record.percent_of_copy else "",
        format_ratio(over.factor) if over else "",
        ", ".join(result.label for result in contest.ties),
    )


def rankings_json(rankings: Sequence[Ranking]) -> str:
    """The same in numbers."""
    return json.dumps([_record(ranking) for ranking in rankings], indent=2) + "\n"


def _record(ranking: Ranking) -> dict[str, Any]:
    conditions = ranking.section.conditions
    return {
        "definition": ranking.section.definition,
        "hardware": conditions.hardware,
        "timer": conditions.timer,
        "clock_mhz": conditions.clock,
        "cold_l2": conditions.cold_l2,
        "rtol": conditions.settings.rtol,
        "atol": conditions.settings.atol,
        "workloads": [
            {
                **contest.workload.identity,
                "winner": contest.winner.record.solution,
                "latency_ms": contest.winner.record.latency_ms,
                "percent_of_copy": contest.winner.record.percent_of_copy,
                "tied_with": [result.record.solution for result in contest.ties],
            }
            for contest in ranking.contests
        ],
        "leaderboard": [
            {
                "solution": each.label,
                "mean_behind": each.mean_behind,
                "won_or_tied": each.wins,
                "workloads": each.workloads,
            }
            for each in ranking.standings
        ],
    }
