"""Winners and leaderboards as tables: of each Workload, of all Definitions, and of what `deploy` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from fib_rmsnorm.analysis.ranking import Contest, Match, Ranking, Summary
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.workload_titles import show_name
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.results import baseline_column, latency_cell, section_title, share_of_copy
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import count, format_apart, format_change, format_percent, format_ratio, pick

if TYPE_CHECKING:
    from fib_rmsnorm.deployment.winner_table import WinnerTable

_CONTEST_COLUMNS = ("workload", "winner", ">latency", ">of copy", ">speedup")
_SUMMARY_COLUMNS = ("definition", "workload", "fastest", "language", ">latency", ">of copy")
_PEER_COLUMNS = ("fastest peer", ">latency", ">times as fast", "")


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
    yield POINTER


def winners_grid(ranking: Ranking) -> Grid:
    """The winner of each Workload, and who is as fast."""
    columns = (*_CONTEST_COLUMNS, baseline_column(ranking.section), ">apart", "tied with")
    return Grid(columns, [_contest_row(contest) for contest in ranking.contests])


def _contest_row(contest: Contest) -> Sequence[str]:
    winner = contest.winner
    if winner is None:
        return (contest.workload.title, "none", *[""] * 6)
    return (
        contest.workload.title,
        winner.label,
        latency_cell(winner),
        share_of_copy(winner),
        format_ratio(winner.speedup.value) if winner.speedup else "",
        format_ratio(winner.over_baseline.value) if winner.over_baseline else "",
        f"up to {format_apart(contest.apart)}" if contest.apart is not None else "",
        ", ".join(result.label for result in contest.ties),
    )


def describe_left_out(contests: Sequence[Contest]) -> Iterator[Doubt]:
    """A line for each Solution that was left out, and each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for contest in contests:
        for result, why in contest.left_out:
            reasons.setdefault((result.label, why), []).append(contest.workload.title)
    for (label, why), titles in reasons.items():
        yield Doubt(f"Left out: {label} at {'; '.join(titles)} ({why})")


def summarize_ranking(ranking: Ranking) -> str:
    """Who wins most often, how far the winners are from the copy, and how many Workloads nobody wins."""
    total = count(len(ranking.contests), "Workload")
    if not ranking.decided:
        return f"No winner on any of {total}."
    most = max(each.wins for each in ranking.standings)
    names = " and ".join(each.label for each in ranking.standings if each.wins == most)
    told = [f"Most wins and ties: {names}, on {most} of {total}."]
    winners = [(each.winner.record.percent_of_copy, each.workload.title) for each in ranking.contests if each.winner]
    if shares := [(percent, title) for percent, title in winners if percent]:
        (low, worst), (high, best) = min(shares), max(shares)
        ends = f"{format_percent(low)} ({worst}) to {format_percent(high)} ({best})" if worst != best else ""
        told.append(f"The winners reach {ends or format_percent(low)} of the copy's speed.")
    if undecided := len(ranking.contests) - ranking.decided:
        told.append(f"Nobody wins on {undecided}.")
    return " ".join(told)


def ranking_records(rankings: Sequence[Ranking]) -> list[dict[str, Any]]:
    """The same in numbers."""
    return [
        {
            "definition": ranking.section.definition,
            **pick(conditions, "hardware", "timer", "cold_l2"),
            "clock_mhz": conditions.clock,
            **asdict(conditions.settings),
            "workloads": [{**each.workload.identity, **contest_record(each)} for each in ranking.contests],
            "leaderboard": [
                {"solution": each.label, "won_or_tied": each.wins, **pick(each, "mean_behind", "workloads")}
                for each in ranking.standings
            ],
        }
        for ranking in rankings
        for conditions in [ranking.section.conditions]
    ]


def contest_record(contest: Contest) -> dict[str, Any]:
    """Who won, with whom it tied, and who was left out."""
    winner = contest.winner
    return {
        "winner": winner.record.solution if winner else None,
        **pick(winner.record if winner else None, "latency_ms", "percent_of_copy"),
        **pick(winner, "speedup"),
        "tied_with": [result.record.solution for result in contest.ties],
        "apart": contest.apart,
        "left_out": [
            {**pick(result.record, "solution", "latency_ms"), "label": result.label, "why": why}
            for result, why in contest.left_out
        ],
    }


def describe_summaries(summaries: Sequence[Summary]) -> Iterator[Part]:
    """The fastest Solution of each Definition beside the fastest peer: a table for each device."""
    for summary in summaries:
        yield Heading(
            f"{count(len({each.definition for each in summary.matches}), 'Definition')} on {summary.hardware}"
        )
        yield Grid((*_SUMMARY_COLUMNS, *_PEER_COLUMNS), [_match_row(match) for match in summary.matches])
        yield _count_verdicts(summary)
        conditions = dict.fromkeys(match.conditions.removeprefix(f"{summary.hardware}, ") for match in summary.matches)
        yield f"Measured with {'; '.join(conditions)}."
        for match in summary.matches:
            for side in (match.own, match.peers):
                if side.winner and (reasons := side.winner.record.noisy):
                    yield Doubt(f"Noisy: {show_name(side.winner.label, match.workload.title)}: {'; '.join(reasons)}")
    yield (
        "Peers: Solutions by the author baseline. Times as fast: the fastest peer's latency over the fastest other's;"
        " a tie: the 95% interval of the ratio, with what medians drift from run to run, holds 1."
    )
    yield POINTER


def _match_row(match: Match) -> Sequence[str]:
    own, peer, ratio = match.own.winner, match.peers.winner, match.times_as_fast
    return (
        match.definition,
        match.workload.title,
        own.label if own else "none",
        title_of(own.record.language) if own else "",
        latency_cell(own) if own else "",
        share_of_copy(own) if own else "",
        peer.label if peer else "none",
        latency_cell(peer) if peer else "",
        format_ratio(ratio.value) if ratio else "",
        f"tie, up to {format_apart(ratio.apart)} apart" if ratio and match.verdict == "tie" else match.verdict or "",
    )


def _count_verdicts(summary: Summary) -> str:
    total = len(summary.matches)
    faster, alike, slower = (summary.count(verdict) for verdict in ("faster", "tie", "slower"))
    told = f"Faster than all peers on {faster} of {count(total, 'Workload')}, a tie on {alike}, slower on {slower}"
    unknown = total - faster - alike - slower
    return f"{told}, not known on {unknown}." if unknown else f"{told}."


def summary_records(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """A row for each Workload of each Definition on each device, in numbers."""
    return [_match_record(summary, match) for summary in summaries for match in summary.matches]


def _match_record(summary: Summary, match: Match) -> dict[str, Any]:
    own, peer = (side.winner.record if side.winner else None for side in (match.own, match.peers))
    ratio = pick(match.times_as_fast, "value", "low", "high", "apart")
    return {
        "definition": match.definition,
        "hardware": summary.hardware,
        "conditions": match.conditions,
        **match.workload.identity,
        "fastest": own.solution if own else None,
        **pick(own, "author", "language", "latency_ms", "percent_of_copy"),
        "fastest_peer": peer.solution if peer else None,
        "peer_latency_ms": peer.latency_ms if peer else None,
        "times_as_fast": ratio["value"],
        "times_as_fast_low": ratio["low"],
        "times_as_fast_high": ratio["high"],
        "verdict": match.verdict,
        "apart": ratio["apart"],
    }


def describe_winners(table: WinnerTable) -> Iterator[str]:
    """What a model's norms choose: a line for each operator and measured shape."""
    for operator, winners in table.operators.items():
        kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in winners.unmeasured.items())
        yield f"{operator}, where nothing was measured: {kinds or 'torch'}"
        for device, shapes in winners.measured.items():
            for each in shapes:
                first, rival = each.candidates[0], each.faster_elsewhere
                faster = f" (faster, by another author: {rival})" if rival else ""
                yield f"  {device}, {each.shape}: {first.solution} {first.latency_us:.3g} us{faster}"
