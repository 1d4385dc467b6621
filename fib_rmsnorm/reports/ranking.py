"""Winners and leaderboards as tables: of each Workload, and of all Definitions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from fib_rmsnorm.analysis.ranking import Match
from fib_rmsnorm.analysis.results import SectionResults, WorkloadResults
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.selection import show_name
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.results import (
    baseline_column,
    describe_noisy,
    latency_cell,
    section_title,
    share_of_copy,
    speedup_text,
    summarize_ranking,
)
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import count, format_apart, format_change, format_ratio, pick

_SUMMARY_COLUMNS = (
    *("definition", "workload", "fastest", "language", ">latency", ">of copy"),
    *("fastest peer", ">peer latency", ">vs peer", "verdict", ">apart"),
)


def describe_rankings(sections: Sequence[SectionResults]) -> Iterator[Part]:
    """The answer, the winner of each Workload, and the leaderboard, section by section."""
    for section in sections:
        yield Heading(section_title(section))
        yield summarize_ranking(section)
        yield winners_grid(section)
        yield from describe_left_out(section.workloads)
        decided = sum(each.winner is not None for each in section.workloads)
        yield Grid(
            ("place", "solution", ">behind", ">won or tied"),
            [
                (
                    f"{place}." if each.workloads == decided else "",
                    each.label,
                    format_change(each.mean_behind),
                    f"{each.wins} of {each.workloads}",
                )
                for place, each in enumerate(section.standings, start=1)
            ],
            title="Leaderboard" if section.standings else "",
        )
    yield POINTER


def winners_grid(section: SectionResults) -> Grid:
    """The winner of each Workload, and which are as fast."""
    columns = ("workload", "winner", ">latency", ">of copy", ">speedup", baseline_column(section))
    return Grid((*columns, ">ties", ">apart", "tied with"), map(_winner_row, section.workloads))


def _winner_row(workload: WorkloadResults) -> Sequence[str]:
    winner = workload.winner
    if winner is None:
        return (workload.title, "none", *[""] * 7)
    return (
        workload.title,
        winner.label,
        latency_cell(winner),
        share_of_copy(winner),
        speedup_text(winner.record, winner.speedup),
        format_ratio(winner.over_baseline.value) if winner.over_baseline else "",
        str(len(workload.ties) or ""),
        format_apart(workload.apart) if workload.apart is not None else "",
        ", ".join(result.label for result in workload.ties),
    )


def describe_left_out(workloads: Sequence[WorkloadResults]) -> Iterator[Doubt]:
    """A line for each reason why Solutions were left out, with their names and Workloads."""
    found: dict[str, dict[str, list[str]]] = {}
    for workload in workloads:
        for result, why in workload.left_out:
            found.setdefault(why, {}).setdefault(result.label, []).append(workload.title)
    for why, labels in found.items():
        named = "; ".join(f"{label} at {', '.join(titles)}" for label, titles in labels.items())
        yield Doubt(f"Left out ({why}): {named}")


def ranking_records(sections: Sequence[SectionResults]) -> list[dict[str, Any]]:
    """The same in numbers."""
    return [
        {
            "definition": section.definition,
            **pick(conditions, "hardware", "timer", "cold_l2"),
            "clock_mhz": conditions.clock,
            **asdict(conditions.settings),
            "workloads": [{**each.identity, **winner_record(each)} for each in section.workloads],
            "leaderboard": [
                {"solution": each.label, "won_or_tied": each.wins, **pick(each, "mean_behind", "workloads")}
                for each in section.standings
            ],
        }
        for section in sections
        for conditions in [section.conditions]
    ]


def winner_record(workload: WorkloadResults) -> dict[str, Any]:
    """The winner, the Solutions that tied with it, and those that were left out."""
    return {
        **pick(workload.fastest, winner="solution"),
        **pick(workload.fastest, "latency_ms", "percent_of_copy"),
        **pick(workload.winner, "speedup"),
        "tied_with": [result.record.solution for result in workload.ties],
        "apart": workload.apart,
        "left_out": [
            {**pick(result.record, "solution", "latency_ms"), "label": result.label, "why": why}
            for result, why in workload.left_out
        ],
    }


def describe_summaries(summaries: Mapping[str, Sequence[Match]]) -> Iterator[Part]:
    """How often the fastest Solution beats all peers, and a row for each Workload: a table for each device."""
    for hardware, matches in summaries.items():
        yield Heading(f"{count(len({each.definition for each in matches}), 'Definition')} on {hardware}")
        on = Counter(match.verdict for match in matches)
        told = f"Faster than all peers on {on['faster']} of {count(len(matches), 'Workload')}, a tie on {on['tie']}"
        yield f"{told}, slower on {on['slower']}{f', not known on {on[None]}' if on[None] else ''}."
        yield Grid(_SUMMARY_COLUMNS, map(_match_row, matches), is_grouped=True)
        conditions = dict.fromkeys(match.conditions.removeprefix(f"{hardware}, ") for match in matches)
        yield f"Measured with {'; '.join(conditions)}."
        yield from describe_noisy(
            (show_name(side.winner.label, match.workload.title), side.winner.record.noisy)
            for match in matches
            for side in (match.own, match.peers)
            if side.winner
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
        match.verdict or "",
        format_apart(ratio.apart) if ratio and match.verdict == "tie" else "",
    )


def summary_records(summaries: Mapping[str, Sequence[Match]]) -> list[dict[str, Any]]:
    """A row for each Workload of each Definition on each device, in numbers."""
    return [
        {
            "definition": match.definition,
            "hardware": hardware,
            "conditions": match.conditions,
            **match.workload.identity,
            **pick(own, fastest="solution"),
            **pick(own, "author", "language", "latency_ms", "percent_of_copy"),
            **pick(peer, fastest_peer="solution", peer_latency_ms="latency_ms"),
            **pick(ratio, times_as_fast="value", times_as_fast_low="low", times_as_fast_high="high"),
            "verdict": match.verdict,
            **pick(ratio, "apart"),
        }
        for hardware, matches in summaries.items()
        for match in matches
        for own, peer, ratio in [(match.own.fastest, match.peers.fastest, match.times_as_fast)]
    ]
