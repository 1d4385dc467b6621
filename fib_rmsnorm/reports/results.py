"""The results of Traces as tables: a section for each set of conditions, a table for each Workload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fib_rmsnorm.analysis.results import Bound, Result, SectionResults, Speedup, WorkloadResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.workload_titles import show_name
from fib_rmsnorm.reports.chain.chain_columns import CHAIN_COLUMNS, chain_cells, chain_doubts, chain_row, has_chains
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.text.csv_text import csv_text
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import (
    assignments,
    count,
    format_bandwidth,
    format_half_width,
    format_latency,
    format_percent,
    format_ratio,
)

_COLUMNS = (
    "solution",
    "language",
    ">latency",
    ">±",
    *CHAIN_COLUMNS,
    ">bandwidth",
    ">of copy",
    ">of peak",
    ">reference",
    ">baseline",
    ">host",
    "",
)


def describe_results(sections: Sequence[SectionResults], superseded: int) -> Iterator[Part]:
    """A table for each Workload, section by section, and what to know about them."""
    for section in sections:
        yield Heading(section_title(section))
        yield from workload_grids(section)
        yield _legend(section)
        if any(result.record.by_reference for result in section.results):
            yield "Judged by the reference alone, on the Workload's inputs: no known operator computes the same."
        for each in section.workloads:
            for result in each.results:
                name = show_name(result.record.solution, each.title)
                if result.record.is_native and result.record.suspect:
                    yield Doubt(f"SUSPECT {name}: {'; '.join(result.record.suspect)}")
                yield from chain_doubts(result.record, name)
        for each in section.workloads:
            for name, bound in (("the reference", each.reference), ("the copy", each.copy)):
                if bound and bound.suspect:
                    yield Doubt(f"SUSPECT {name} at {each.title}: {'; '.join(bound.suspect)}")
    yield POINTER
    if superseded:
        left_out = count(superseded, "older Trace")
        yield f"{left_out} left out: for each Solution, Workload and conditions only the newest counts."


def _legend(section: SectionResults) -> str:
    """What the columns mean."""
    bounds = [bound for each in section.workloads for bound in (each.reference, each.copy) if bound]
    untrusted = " Untrusted: measured against a reference or a copy that is SUSPECT." * any(b.suspect for b in bounds)
    has_intervals = any(result.record.latency_low_ms is not None for result in section.results)
    latency = "the median, ± half its 95% interval by trials" if has_intervals else "as recorded, without an interval"
    rivals = "Reference: times as fast as the reference."
    if section.baseline:
        rivals = f"Reference, baseline: times as fast as the reference, and as {section.baseline}."
    over = any((result.percent_of_peak or 0) > 100 for result in section.results)
    peak = " Of peak: over 100% where L2 kept a part of the bytes from the memory." if over else ""
    chained = ""
    if has_chains(result.record for result in section.results):
        chained = " In a graph: what a call adds to a CUDA graph. Dependent: by programmatic dependent launch."
    several = ""
    if any(each.is_of_several_runs for each in section.workloads):
        several = " Measured in several runs: each result is compared with the reference and the copy of its own."
    return f"Latency: {latency}. {rivals}{several}{peak}{untrusted}{chained}"


def section_title(section: SectionResults) -> str:
    """`rmsnorm_d4096 on NVIDIA H200, cupti, 1980 MHz, cold L2`."""
    return f"{section.definition} on {section.conditions.text}"


def empty_name(section: SectionResults) -> str:
    """The name of what measures the floor of a launch."""
    return "An empty call" if section.conditions.timer == "cpu_clock" else "An empty kernel"


def workload_grids(section: SectionResults) -> Iterator[Grid]:
    """A table for each Workload."""
    for each in section.workloads:
        bounds = {
            "Reference": each.reference,
            "A copy of the same bytes": each.copy,
            empty_name(section): Bound.of(each.empty_ms, None, None, ()),
        }
        rows: list[Sequence[str]] = [_bound_row(name, bound) for name, bound in bounds.items() if bound]
        rows += [_row(result) for result in each.results]
        yield Grid(_COLUMNS, rows, title=f"Benchmark Results ({each.title})")


def _bound_row(name: str, bound: Bound) -> Sequence[str]:
    half = format_half_width(*bound.interval_ms, bound.latency_ms) if bound.interval_ms else ""
    mark = "SUSPECT" if bound.suspect else ""
    return (name, "", format_latency(bound.latency_ms), half, *[""] * (len(_COLUMNS) - 5), mark)


def share_of_copy(record: TraceRecord) -> str:
    """`72%`; an untrusted copy has no share."""
    if not record.is_native:
        return ""
    if record.copy_suspect:
        return "untrusted"
    return format_percent(record.percent_of_copy) if record.percent_of_copy else ""


def _row(result: Result) -> Sequence[str]:
    record = result.record
    return (
        result.label,
        title_of(record.language),
        format_latency(record.latency_ms) if record.latency_ms and record.passed else "",
        either_side(record),
        *chain_cells(record),
        format_bandwidth(result.bandwidth_gb_per_s) if result.bandwidth_gb_per_s else "",
        share_of_copy(record),
        format_percent(result.percent_of_peak) if result.percent_of_peak else "",
        "untrusted" if record.is_native and record.reference_suspect else _ratio(result.over_reference),
        _ratio(result.over_baseline),
        format_latency(record.host_overhead_us / 1e3) if record.host_overhead_us is not None else "",
        result.mark,
    )


def either_side(record: TraceRecord) -> str:
    """The `±` of a result that has an interval: `0.8%`."""
    interval, latency = record.interval_ms, record.latency_ms
    if interval is None or not latency or not record.is_native:
        return ""
    return format_half_width(*interval, latency)


def _ratio(speedup: Speedup | None) -> str:
    return format_ratio(speedup.factor) if speedup else ""


def result_rows(sections: Sequence[SectionResults]) -> list[dict[str, Any]]:
    """A row for each result, with numbers as they are."""
    return [
        _flat(section, workload, result)
        for section in sections
        for workload in section.workloads
        for result in workload.results
    ]


def as_csv(sections: Sequence[SectionResults]) -> str:
    """A row for each result; its axes and scalars are text, as in the tables."""
    return csv_text([flat_row(row) for row in result_rows(sections)])


def flat_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of which axes and scalars are text, for a CSV."""
    return {**row, "axes": assignments(row["axes"]), "scalars": assignments(row["scalars"])}


def as_json(sections: Sequence[SectionResults], superseded: int, side_by_side: list[dict[str, Any]]) -> str:
    """The rows of the CSV, several devices side by side, and how many Traces were left out."""
    record = {"superseded": superseded, "results": result_rows(sections), "side_by_side": side_by_side}
    return json.dumps(record, indent=2) + "\n"


def _flat(section: SectionResults, workload: WorkloadResults, result: Result) -> dict[str, Any]:
    record, conditions = result.record, section.conditions
    return {
        "definition": section.definition,
        "hardware": conditions.hardware,
        "timer": conditions.timer,
        "clock_mhz": record.during_mhz,
        "cold_l2": conditions.cold_l2,
        **workload.identity,
        "solution": record.solution,
        "label": result.label,
        "author": record.author,
        "language": record.language,
        "status": record.status,
        "mark": result.mark,
        "latency_ms": record.latency_ms,
        "latency_low_ms": record.interval_ms[0] if record.interval_ms else None,
        "latency_high_ms": record.interval_ms[1] if record.interval_ms else None,
        "reference_latency_ms": record.reference_latency_ms,
        "reference_suspect": "; ".join(record.reference_suspect),
        "speedup_over_reference": result.over_reference.factor if result.over_reference else None,
        "baseline": section.baseline,
        "speedup_over_baseline": result.over_baseline.factor if result.over_baseline else None,
        "bytes_moved": record.bytes_moved,
        "bandwidth_gb_per_s": result.bandwidth_gb_per_s,
        "percent_of_copy": record.percent_of_copy if record.is_native else None,
        "percent_of_peak": result.percent_of_peak,
        "copy_ms": record.copy_ms,
        "copy_suspect": "; ".join(record.copy_suspect),
        "empty_ms": record.empty_ms,
        "host_overhead_us": record.host_overhead_us,
        "empty_host_us": record.empty_host_us,
        **chain_row(record),
        "suspect": "; ".join(record.suspect),
        "timestamp": record.timestamp,
        "trace": record.place,
    }
