"""Winners and leaderboards as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.ranking import Contest, Ranking
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.results import baseline_column, latency_cell, section_title
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import (
    count,
    estimate_record,
    finite,
    format_apart,
    format_change,
    format_percent,
    format_ratio,
)


def describe_rankings(rankings: Sequence[Ranking]) -> Iterator[Part]:
    """The winner of each Workload, who was left out, and the leaderboard, section by section."""
    for ranking in rankings:
        yield Heading(section_title(ranking.section))
        yield winners_grid(ranking)
        yield from describe_left_out(ranking.contests)
        if not ranking.decided:
            continue
        yield Grid(
            ("place", "solution", ">behind", ">won or tied"),
            [
                (
                    f"{place}." if each.workloads == ranking.decided else "",
                    each.label,
                    format_change(each.mean_behind),
                    f"{each.wins} of {each.workloads}",
                )
                for place, each in enumerate(ranking.standings, start=1)
            ],
            title="Leaderboard",
        )
        yield (
            "Tied: the 95% interval of the ratio to the winner, with what medians drift from run to run, holds 1;"
            " apart: by how much they could still differ. Behind: latency over the winner's, as the geometric mean"
            " over the Workloads that have a winner; only who was timed on all of them has a place."
        )
    yield POINTER


def winners_grid(ranking: Ranking) -> Grid:
    """The winner of each Workload, and who is as fast."""
    return Grid(
        (
            *(
                "workload",
                "winner",
                ">latency",
                ">of copy",
                ">speedup",
                baseline_column(ranking.section),
                ">apart",
                "tied with",
            ),
        ),
        [_contest_row(contest) for contest in ranking.contests],
    )


def summarize_ranking(ranking: Ranking) -> str:
    """Who wins most often, how far the winners are from the copy, and how many Workloads nobody wins."""
    total = count(len(ranking.contests), "Workload")
    if not ranking.decided:
        return f"No winner on any of {total}."
    most = max(each.wins for each in ranking.standings)
    names = " and ".join(each.label for each in ranking.standings if each.wins == most)
    undecided = len(ranking.contests) - ranking.decided
    told = (
        f"Most wins and ties: {names}, on {most} of {total}.",
        _winners_share(ranking.contests),
        f"Nobody wins on {undecided}." if undecided else "",
    )
    return " ".join(filter(None, told))


def _winners_share(contests: Sequence[Contest]) -> str:
    winners = [(each.winner.record.percent_of_copy, each.workload.title) for each in contests if each.winner]
    shares = [(percent, title) for percent, title in winners if percent]
    if not shares:
        return ""
    (low, worst), (high, best) = min(shares), max(shares)
    if worst == best:
        return f"The winner reaches {format_percent(low)} of the copy's speed."
    return f"The winners reach {format_percent(low)} ({worst}) to {format_percent(high)} ({best}) of the copy's speed."


def describe_left_out(contests: Sequence[Contest]) -> Iterator[Doubt]:
    """A line for each Solution that was left out, and each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for contest in contests:
        for each in contest.left_out:
            reasons.setdefault((each.result.label, each.why), []).append(contest.workload.title)
    for (label, why), titles in reasons.items():
        yield Doubt(f"Left out: {label} at {'; '.join(titles)} ({why})")


def _contest_row(contest: Contest) -> Sequence[str]:
    winner = contest.winner
    if winner is None:
        return (contest.workload.title, "none", "", "", "", "", "", "")
    record, over = winner.record, winner.over_baseline
    return (
        contest.workload.title,
        winner.label,
        latency_cell(record),
        format_percent(record.percent_of_copy) if record.percent_of_copy else "",
        format_ratio(winner.speedup.value) if winner.speedup else "",
        format_ratio(over.value) if over else "",
        f"up to {format_apart(contest.apart)}" if contest.apart is not None else "",
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
        **conditions.settings._asdict(),
        "workloads": [{**contest.workload.identity, **contest_record(contest)} for contest in ranking.contests],
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


def contest_record(contest: Contest) -> dict[str, Any]:
    """Who won, with whom it tied, and who was left out."""
    winner = contest.winner
    return {
        "winner": winner.record.solution if winner else None,
        "latency_ms": winner.record.latency_ms if winner else None,
        "percent_of_copy": winner.record.percent_of_copy if winner else None,
        "speedup": estimate_record(winner.speedup) if winner else None,
        "tied_with": [result.record.solution for result in contest.ties],
        "apart": finite(contest.apart),
        "left_out": [
            {
                "solution": each.result.record.solution,
                "label": each.result.label,
                "why": each.why,
                "latency_ms": each.result.record.latency_ms,
            }
            for each in contest.left_out
        ],
    }
