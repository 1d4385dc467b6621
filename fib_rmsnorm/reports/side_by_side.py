"""Several devices side by side, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.side_by_side import Pairing, SideBySide, SideBySideRow
from fib_rmsnorm.reports.results import section_title, share_of_copy
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import estimate_record, format_latency, format_ratio


def describe_side_by_side(found: Sequence[SideBySide]) -> Iterator[Part]:
    """A table for each Definition."""
    for each in found:
        yield Heading(side_by_side_title(each))
        yield side_by_side_grid(each)
        yield from side_by_side_notes(each)


def side_by_side_title(each: SideBySide) -> str:
    """`rmsnorm_d4096 on 2 devices`."""
    return f"{each.definition} on {len(each.sections)} devices"


def side_by_side_grid(each: SideBySide) -> Grid:
    """A row for each Solution and Workload, a column for each device, and how many times as fast as on the first."""
    devices = [section.conditions.hardware for section in each.sections]
    others = [f" on {name}" for name in devices[1:]] if len(devices) > 2 else [""]
    columns = ("solution", "workload", *(f">{name}" for name in devices), *(f">times as fast{on}" for on in others))
    return Grid(columns, [_row(row) for row in each.rows])


def side_by_side_notes(each: SideBySide) -> Iterator[str]:
    """What the columns mean, which conditions they have, and why ratios are missing."""
    first = each.sections[0].conditions.hardware
    has_ratios = any(pairing.times_as_fast for row in each.rows for pairing in row.pairings)
    ratios = f" Ratios: times as fast as on {first}, with a 95% interval." if has_ratios else ""
    yield f"Median latency (share of the copy on the same device); * is noisy.{ratios}"
    yield f"Of each device the newest section: {'; '.join(section_title(section) for section in each.sections)}."
    everyone = len({row.solution for row in each.rows})
    for why, names in each.why_no_ratios.items():
        which = "any Solution" if len(names) == everyone else ", ".join(names)
        yield f"No ratio for {which}: {why}."


def _row(row: SideBySideRow) -> Sequence[str]:
    _, *others = row.pairings
    return (
        row.solution,
        row.workload,
        *(_latency(pairing) for pairing in row.pairings),
        *(_ratio(pairing) for pairing in others),
    )


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
    """The same in numbers."""
    return [
        {
            "definition": each.definition,
            "devices": [section.conditions.hardware for section in each.sections],
            "rows": [
                {
                    "solution": row.solution,
                    "workload": row.workload,
                    "devices": [_pairing_record(pairing) for pairing in row.pairings],
                }
                for row in each.rows
            ],
        }
        for each in found
    ]


def _pairing_record(pairing: Pairing) -> dict[str, Any] | None:
    if pairing.result is None:
        return None
    record = pairing.result.record
    return {
        "mark": pairing.result.mark,
        "latency_ms": record.latency_ms,
        "percent_of_copy": record.percent_of_copy if record.is_native else None,
        "times_as_fast": estimate_record(pairing.times_as_fast),
        "why_no_ratio": pairing.why_no_ratio or None,
    }
