"""The table of results, which a browser sorts and filters, with the trust line of each number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.results import either_side
from fib_rmsnorm.reports.text.languages import LANGUAGE_TITLES
from fib_rmsnorm.reports.text.units import (
    count,
    format_bandwidth,
    format_latency,
    format_percent,
    format_ratio,
)

_COLUMNS = (
    ("workload", "number"),
    ("solution", ""),
    ("language", ""),
    ("latency", "number"),
    ("bandwidth", "number"),
    ("of copy", "number"),
    ("of peak", "number"),
    ("over reference", "number"),
    ("over baseline", "number"),
    ("host", "number"),
    ("status", ""),
)

Cell = tuple[str, float | str | None]
"""What is shown, and what it is sorted by; None sorts last."""


def results_table(section: SectionResults) -> str:
    """A body of two rows for each result, its numbers and why to trust them; every column can be sorted by."""
    head = "".join(
        f'<th class="{kind}" aria-sort="none"><button type="button">{escape(name)}</button></th>'
        for name, kind in _COLUMNS
    )
    rows = [
        _row(result, workload, index) for index, workload in enumerate(section.workloads) for result in workload.results
    ]
    baseline = f"Baseline: {section.baseline}." if section.baseline else "There is no Trace of a baseline."
    return (
        '<p class="tools"><label>Show only <input type="search" class="filter" placeholder="a name, batch=8, CUDA">'
        f"</label> <span>{escape(baseline)}</span></p>"
        f'<div class="wide tall"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"{''.join(rows)}</table></div>"
    )


def _row(result: Result, workload: WorkloadResults, index: int) -> str:
    cells = "".join(
        f'<td class="{kind}" data-sort="{"" if value is None else escape(str(value))}">{text}</td>'
        for (text, value), (_, kind) in zip(_cells(result, workload, index), _COLUMNS, strict=True)
    )
    kind = "" if result.record.is_trusted else "doubtful" if result.record.passed else "failed"
    trust = f'<td colspan="{len(_COLUMNS)}"><div>{escape(trust_line(result.record))}</div></td>'
    return f'<tbody class="{kind}"><tr>{cells}</tr><tr class="trust">{trust}</tr></tbody>'


def _cells(result: Result, workload: WorkloadResults, index: int) -> Iterator[Cell]:
    record = result.record
    language = LANGUAGE_TITLES.get(record.language or "", record.language or "")
    host_us = record.host_overhead_us
    reference, baseline = result.over_reference, result.over_baseline
    percent = record.percent_of_copy if record.is_native else None
    yield escape(workload.title), index
    yield escape(result.label), result.label
    yield escape(language), language
    yield format_latency(record.latency_ms) if record.latency_ms and record.passed else "", record.latency_ms
    yield _maybe(format_bandwidth, result.bandwidth_gb_per_s)
    yield _maybe(format_percent, percent)
    yield _maybe(format_percent, result.percent_of_peak)
    yield _maybe(format_ratio, reference.factor if reference else None)
    yield _maybe(format_ratio, baseline.factor if baseline else None)
    yield format_latency(host_us / 1e3) if host_us is not None else "", host_us
    yield escape(result.mark or record.status), result.mark or record.status


def _maybe(form: Callable[[float], str], value: float | None) -> Cell:
    return (form(value), value) if value is not None else ("", None)


def trust_line(record: TraceRecord) -> str:
    """All that says how far to trust a number, in one line; of a failure its first line."""
    if not record.passed:
        return f"{record.log.strip().partition(chr(10))[0]} {record.place}".strip()
    calls = count(record.samples, "call") if record.samples else ""
    trials = f" in {count(record.trials, 'trial')}" if record.trials else ""
    interval = either_side(record)
    cache = {True: "cold L2", False: "warm L2", None: ""}[record.cold_l2]
    told = [
        *(f"SUSPECT: {reason}" for reason in record.suspect),
        "interpreted: no measure of the kernel" if record.interpreted else "",
        record.timer or "timer not recorded",
        f"{calls}{trials}",
        f"±{interval}" if interval else "no interval recorded",
        f"earlier and later trials {record.a_a_difference:.1%} apart" if record.a_a_difference is not None else "",
        f"{record.during_mhz:.0f} MHz" if record.during_mhz is not None else "clock not recorded",
        cache,
        record.timestamp[:16].replace("T", " "),
        record.place,
    ]
    return " · ".join(filter(None, told))
