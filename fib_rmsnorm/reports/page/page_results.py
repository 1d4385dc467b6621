"""The table of results, which a browser sorts and filters, with how each number was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.reports.chain.chain_columns import CHAIN_COLUMNS, chain_cells, has_chains
from fib_rmsnorm.reports.results import baseline_column, latency_cell, share_of_copy
from fib_rmsnorm.reports.text.units import (
    count,
    format_bandwidth,
    format_half_width,
    format_latency,
    format_percent,
    format_ratio,
    format_share,
)

_COLUMNS = (
    *(">workload", "solution", "language", ">latency", *CHAIN_COLUMNS, ">bandwidth", ">of copy", ">of peak"),
    *(">speedup", "", ">host", "status"),
)


@dataclass(frozen=True)
class Cell:
    """A cell, and the key that its column is sorted by; an empty key sorts last."""

    text: str
    sort_key: float | str = ""


@dataclass(frozen=True)
class ResultRow:
    """A result's numbers, and how they were measured."""

    kind: str
    """`doubtful`, `failed` or nothing."""
    cells: list[Cell]
    conditions: str


@dataclass(frozen=True)
class ResultTable:
    """The results of a section; `>` before a column's name aligns it to the right."""

    columns: Sequence[str]
    rows: list[ResultRow]
    baseline: str


def make_table(section: SectionResults) -> ResultTable:
    """A row for each result, in the order of the Workloads."""
    baseline = f"Baseline: {section.baseline}." if section.baseline else "No baseline was evaluated."
    chained = has_chains(result.record for result in section.results)
    columns = [name or baseline_column(section) for name in _COLUMNS if chained or name not in CHAIN_COLUMNS]
    rows = [
        _row(result, workload, index, chained=chained)
        for index, workload in enumerate(section.workloads)
        for result in workload.results
    ]
    return ResultTable(columns, rows, baseline)


def _row(result: Result, workload: WorkloadResults, index: int, *, chained: bool) -> ResultRow:
    kind = "doubtful" if result.mark == "noisy" else "" if result.record.passed else "failed"
    return ResultRow(kind, list(_cells(result, workload, index, chained=chained)), describe_conditions(result.record))


def _cells(result: Result, workload: WorkloadResults, index: int, *, chained: bool) -> Iterator[Cell]:
    record = result.record
    language = title_of(record.language)
    yield Cell(workload.title, index)
    yield Cell(result.label, result.label)
    yield Cell(language, language)
    yield Cell(latency_cell(record), record.latency_ms if record.latency_ms and record.passed else "")
    if chained:
        plain, dependent = chain_cells(record)
        yield Cell(plain, record.chained_latency_ms or "")
        yield Cell(dependent, record.dependent_latency_ms or "")
    yield _maybe(format_bandwidth, result.bandwidth_gb_per_s)
    yield Cell(share_of_copy(record), record.percent_of_copy or "")
    yield _maybe(format_percent, result.percent_of_peak)
    yield _maybe(format_ratio, result.speedup.value if result.speedup else None)
    yield _maybe(format_ratio, result.over_baseline.value if result.over_baseline else None)
    yield _maybe(lambda us: format_latency(us / 1e3), record.host_overhead_us)
    yield Cell(result.mark or record.status, result.mark or record.status)


def _maybe(form: Callable[[float], str], value: float | None) -> Cell:
    return Cell(form(value), value) if value is not None else Cell("")


def describe_conditions(record: TraceRecord) -> str:
    """In one line, how a number was measured; for a failure, the first line of its log."""
    if not record.passed:
        return f"{record.log.strip().partition(chr(10))[0]} {record.place}".strip()
    if record.interpreted:
        return " · ".join(("interpreted, so not timed", record.timestamp[:16].replace("T", " "), record.place))
    calls = count(record.samples, "call") if record.samples else ""
    trials = f" in {count(record.trials, 'trial')}" if record.trials else ""
    interval = format_half_width(record.interval_ms)
    cache = {True: "cold L2", False: "warm L2", None: ""}[record.cold_l2]
    told = [
        *(f"noisy: {reason}" for reason in record.noisy),
        record.timer or "timer not recorded",
        f"{calls}{trials}",
        f"±{interval}" if interval else "no interval recorded",
        f"earlier and later trials {format_share(record.a_a_difference)} apart"
        if record.a_a_difference is not None
        else "",
        f"{record.during_mhz:.0f} MHz" if record.during_mhz is not None else "clock not recorded",
        cache,
        record.timestamp[:16].replace("T", " "),
        record.place,
    ]
    return " · ".join(filter(None, told))
