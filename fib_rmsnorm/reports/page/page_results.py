"""The table of results, which a browser sorts and filters, with the trust line of each number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.reports.chain.chain_columns import CHAIN_COLUMNS, chain_cells, has_chains
from fib_rmsnorm.reports.results import either_side, share_of_copy
from fib_rmsnorm.reports.text.units import (
    count,
    format_bandwidth,
    format_latency,
    format_percent,
    format_ratio,
    format_share,
)

_COLUMNS = (
    *(">workload", "solution", "language", ">latency", *CHAIN_COLUMNS, ">bandwidth", ">of copy", ">of peak"),
    *(">over reference", ">over baseline", ">host", "status"),
)


@dataclass(frozen=True)
class Cell:
    """A cell, and the key that its column is sorted by; an empty key sorts last."""

    text: str
    sort_key: float | str = ""


@dataclass(frozen=True)
class ResultRow:
    """A result's numbers, and why to trust them."""

    kind: str
    """`doubtful`, `failed` or nothing."""
    cells: list[Cell]
    trust: str


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
    columns = [name for name in _COLUMNS if chained or name not in CHAIN_COLUMNS]
    rows = [
        _row(result, workload, index, chained=chained)
        for index, workload in enumerate(section.workloads)
        for result in workload.results
    ]
    return ResultTable(columns, rows, baseline)


def _row(result: Result, workload: WorkloadResults, index: int, *, chained: bool) -> ResultRow:
    is_sure = result.record.is_trusted or result.mark == "correct"
    kind = "" if is_sure else "doubtful" if result.record.passed else "failed"
    return ResultRow(kind, list(_cells(result, workload, index, chained=chained)), trust_line(result.record))


def _cells(result: Result, workload: WorkloadResults, index: int, *, chained: bool) -> Iterator[Cell]:
    record = result.record
    language = title_of(record.language)
    reference, baseline = result.over_reference, result.over_baseline
    yield Cell(workload.title, index)
    yield Cell(result.label, result.label)
    yield Cell(language, language)
    yield _maybe(format_latency, record.latency_ms if record.passed else None)
    if chained:
        plain, dependent = chain_cells(record)
        yield Cell(plain, record.chained_latency_ms or "")
        yield Cell(dependent, record.dependent_latency_ms or "")
    yield _maybe(format_bandwidth, result.bandwidth_gb_per_s)
    yield Cell(share_of_copy(record), record.percent_of_copy or "")
    yield _maybe(format_percent, result.percent_of_peak)
    yield (
        Cell("untrusted") if record.reference_suspect else _maybe(format_ratio, reference.factor if reference else None)
    )
    yield _maybe(format_ratio, baseline.factor if baseline else None)
    yield _maybe(lambda us: format_latency(us / 1e3), record.host_overhead_us)
    yield Cell(result.mark or record.status, result.mark or record.status)


def _maybe(form: Callable[[float], str], value: float | None) -> Cell:
    return Cell(form(value), value) if value is not None else Cell("")


def trust_line(record: TraceRecord) -> str:
    """In one line, why to trust a number; for a failure, the first line of its log."""
    if not record.passed:
        return f"{record.log.strip().partition(chr(10))[0]} {record.place}".strip()
    if record.interpreted:
        return " · ".join(("interpreted, so not timed", record.timestamp[:16].replace("T", " "), record.place))
    calls = count(record.samples, "call") if record.samples else ""
    trials = f" in {count(record.trials, 'trial')}" if record.trials else ""
    interval = either_side(record)
    cache = {True: "cold L2", False: "warm L2", None: ""}[record.cold_l2]
    told = [
        *(f"SUSPECT: {reason}" for reason in record.suspect),
        record.timer or "timer not recorded",
        f"{calls}{trials}",
        f"±{interval}" if interval else "no interval recorded",
        f"earlier and later trials {format_share(record.a_a_difference)} apart"
        if record.a_a_difference is not None
        else "",
        f"{record.during_mhz:.0f} MHz" if record.during_mhz is not None else "clock not recorded",
        cache,
        *(f"reference untrusted: {reason}" for reason in record.reference_suspect),
        *(f"copy untrusted: {reason}" for reason in record.copy_suspect),
        record.timestamp[:16].replace("T", " "),
        record.place,
    ]
    return " · ".join(filter(None, told))
