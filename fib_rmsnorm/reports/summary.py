"""The fastest Solution of each Definition beside the fastest peer, as one table for a device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.ranking import Contest
from fib_rmsnorm.analysis.summary import Match, Summary
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.workload_titles import show_name
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.results import latency_cell, share_of_copy
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import count, finite, format_apart, format_ratio

_COLUMNS = (
    "definition",
    "workload",
    "fastest",
    "language",
    ">latency",
    ">of copy",
    "fastest peer",
    ">latency",
    ">times as fast",
    "",
)


def describe_summaries(summaries: Sequence[Summary]) -> Iterator[Part]:
    """A table for each device, and what to know about it."""
    for summary in summaries:
        yield Heading(
            f"{count(len({each.definition for each in summary.matches}), 'Definition')} on {summary.hardware}"
        )
        yield Grid(_COLUMNS, [_row(match) for match in summary.matches])
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


def _row(match: Match) -> Sequence[str]:
    own, peer, ratio = match.own.winner, match.peers.winner, match.times_as_fast
    return (
        match.definition,
        match.workload.title,
        own.label if own else "none",
        title_of(own.record.language) if own else "",
        _latency(match.own),
        share_of_copy(own.record) if own else "",
        peer.label if peer else "none",
        _latency(match.peers),
        format_ratio(ratio.value) if ratio else "",
        f"tie, up to {format_apart(ratio.apart)} apart" if ratio and match.verdict == "tie" else match.verdict or "",
    )


def _latency(contest: Contest) -> str:
    return latency_cell(contest.winner.record) if contest.winner else ""


def _count_verdicts(summary: Summary) -> str:
    total = len(summary.matches)
    faster, alike, slower = (summary.count(verdict) for verdict in ("faster", "tie", "slower"))
    unknown = total - faster - alike - slower
    told = [f"Faster than all peers on {faster} of {count(total, 'Workload')}, a tie on {alike}, slower on {slower}"]
    if unknown:
        told.append(f"not known on {unknown}")
    return f"{', '.join(told)}."


def summaries_json(summaries: Iterable[Summary]) -> str:
    """The rows in numbers."""
    return json.dumps(summary_rows(summaries), indent=2) + "\n"


def summary_rows(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    """A row for each Workload of each Definition on each device."""
    return [_record(summary, match) for summary in summaries for match in summary.matches]


def _record(summary: Summary, match: Match) -> dict[str, Any]:
    own, peer, ratio = match.own.winner, match.peers.winner, match.times_as_fast
    return {
        "definition": match.definition,
        "hardware": summary.hardware,
        "conditions": match.conditions,
        **match.workload.identity,
        "fastest": own.record.solution if own else None,
        "author": own.record.author if own else None,
        "language": own.record.language if own else None,
        "latency_ms": own.record.latency_ms if own else None,
        "percent_of_copy": own.record.percent_of_copy if own else None,
        "fastest_peer": peer.record.solution if peer else None,
        "peer_latency_ms": peer.record.latency_ms if peer else None,
        "times_as_fast": ratio.value if ratio else None,
        "times_as_fast_low": finite(ratio.low) if ratio else None,
        "times_as_fast_high": finite(ratio.high) if ratio else None,
        "verdict": match.verdict,
        "apart": finite(ratio.apart) if ratio else None,
    }
