"""Several devices side by side, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.side_by_side import Pairing, SideBySide
from fib_rmsnorm.reports.results import section_title, share_of_copy
from fib_rmsnorm.reports.text.data import pick
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_latency, format_ratio


def describe_side_by_side(each: SideBySide) -> Iterator[Part]:
    """A row for each Solution and Workload, a column for each device, and how many times as fast as on the first."""
    yield Heading(f"{each.definition} on {len(each.sections)} devices")
    first, *others = devices = [section.conditions.hardware for section in each.sections]
    told = [f" on {name}" for name in others] if len(others) > 1 else [""]
    yield Grid(
        ("solution", "workload", *(f">{name}" for name in devices), *(f">times as fast{on}" for on in told)),
        [
            (row.solution, row.workload, *map(_latency, row.pairings), *map(_ratio, row.pairings[1:]))
            for row in each.rows
        ],
    )
    has_ratios = any(pairing.times_as_fast for row in each.rows for pairing in row.pairings)
    ratios = f" Ratios: times as fast as on {first}, with a 95% interval." if has_ratios else ""
    yield f"Median latency (share of the copy on the same device); * is noisy.{ratios}"
    yield f"Of each device the newest section: {'; '.join(section_title(section) for section in each.sections)}."
    everyone = len({row.solution for row in each.rows})
    for why, names in each.why_no_ratios.items():
        yield f"No ratio for {'any Solution' if len(names) == everyone else ', '.join(names)}: {why}."


def _latency(pairing: Pairing) -> str:
    if pairing.result is None:
        return ""
    record = pairing.result.record
    if not record.is_native or record.latency_ms is None:
        return pairing.result.mark
    share = share_of_copy(record)
    return f"{format_latency(record.latency_ms)}{f' ({share})' if share else ''}{' *' if record.noisy else ''}"


def _ratio(pairing: Pairing) -> str:
    times = pairing.times_as_fast
    return f"{format_ratio(times.value)} ({format_ratio(times.low)} to {format_ratio(times.high)})" if times else ""


def side_by_side_records(found: Sequence[SideBySide]) -> list[dict[str, Any]]:
    """The same in numbers; null for a device on which a Solution was not evaluated."""
    return [
        {
            "definition": each.definition,
            "devices": [section.conditions.hardware for section in each.sections],
            "rows": [
                {**pick(row, "solution", "workload"), "devices": [_record(pairing) for pairing in row.pairings]}
                for row in each.rows
            ],
        }
        for each in found
    ]


def _record(pairing: Pairing) -> dict[str, Any] | None:
    if pairing.result is None:
        return None
    return {
        "mark": pairing.result.mark,
        **pick(pairing.result.record, "latency_ms", "percent_of_copy"),
        "times_as_fast": pairing.times_as_fast,
        "why_no_ratio": pairing.why_no_ratio or None,
    }
