"""The results of Traces as tables: a section for each set of conditions, a table for each Workload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fib_rmsnorm.analysis.estimate import Estimate, RunLatency
from fib_rmsnorm.analysis.results import Result, SectionResults, WorkloadResults
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
    estimate_record,
    format_bandwidth,
    format_either_side,
    format_latency,
    format_percent,
    format_ratio,
)

_COLUMNS = (
    "solution",
    "language",
    ">latency",
    *CHAIN_COLUMNS,
    ">bandwidth",
    ">of copy",
    ">of peak",
    ">speedup",
    "",  # the baseline's
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
                if result.record.is_native and result.record.noisy:
                    yield Doubt(f"Noisy: {name}: {'; '.join(result.record.noisy)}")
                yield from chain_doubts(result.record, name)
    yield POINTER
    if superseded:
        left_out = count(superseded, "older Trace")
        yield f"{left_out} left out: for each Solution, Workload and conditions only the newest counts."


def _legend(section: SectionResults) -> str:
    """What the columns mean."""
    has_intervals = any(result.record.latency_low_ms is not None for result in section.results)
    latency = (
        "the median, ± half its 95% interval where that is over 2%"
        if has_intervals
        else "as recorded, without an interval"
    )
    rivals = "Speedup: times as fast as the reference."
    if section.baseline:
        rivals = f"{rivals} {baseline_column(section).removeprefix('>').capitalize()}: as {section.baseline}."
    over = any((result.percent_of_peak or 0) > 100 for result in section.results)
    peak = " Of peak: over 100% where L2 kept a part of the bytes from the memory." if over else ""
    chained = ""
    if has_chains(result.record for result in section.results):
        chained = " In a graph: what a call adds to a CUDA graph. Dependent: by programmatic dependent launch."
    several = ""
    if any(each.is_of_several_runs for each in section.workloads):
        several = " Measured in several runs: each result is compared with the reference and the copy of its own."
    return f"Latency: {latency}. {rivals}{several}{peak}{chained}"


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
            "Reference": _bound_cell(each.reference),
            "A copy of the same bytes": _bound_cell(each.copy),
            empty_name(section): format_latency(each.empty_ms) if each.empty_ms else "",
        }
        rows: list[Sequence[str]] = [
            (name, "", bound, *[""] * (len(_COLUMNS) - 3)) for name, bound in bounds.items() if bound
        ]
        rows += [_row(result) for result in each.results]
        columns = [name or baseline_column(section) for name in _COLUMNS[:-1]]
        yield Grid((*columns, ""), rows, title=f"Benchmark Results ({each.title})")


def baseline_column(section: SectionResults) -> str:
    """The title of how many times as fast a result is as the baseline."""
    return ">vs torch" if section.baseline and "torch" in section.baseline else ">vs baseline"


def _bound_cell(bound: RunLatency | None) -> str:
    return _cell(bound.ms, bound.interval_ms) if bound else ""


def _cell(latency_ms: float, interval_ms: Estimate | None) -> str:
    return f"{format_latency(latency_ms)} {format_either_side(interval_ms)}".rstrip()


def latency_cell(record: TraceRecord) -> str:
    """`137 us ±9%`; nothing for what failed or was not timed."""
    return _cell(record.latency_ms, record.interval_ms) if record.latency_ms and record.passed else ""


def share_of_copy(record: TraceRecord) -> str:
    """`72%`."""
    return format_percent(record.percent_of_copy) if record.is_native and record.percent_of_copy else ""


def _row(result: Result) -> Sequence[str]:
    record = result.record
    return (
        result.label,
        title_of(record.language),
        latency_cell(record),
        *chain_cells(record),
        format_bandwidth(result.bandwidth_gb_per_s) if result.bandwidth_gb_per_s else "",
        share_of_copy(record),
        format_percent(result.percent_of_peak) if result.percent_of_peak else "",
        _ratio(result.speedup),
        _ratio(result.over_baseline),
        format_latency(record.host_overhead_us / 1e3) if record.host_overhead_us is not None else "",
        result.mark,
    )


def _ratio(ratio: Estimate | None) -> str:
    return format_ratio(ratio.value) if ratio else ""


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
        "latency_low_ms": record.interval_ms.low if record.interval_ms else None,
        "latency_high_ms": record.interval_ms.high if record.interval_ms else None,
        "reference_latency_ms": record.reference_latency_ms,
        **_ratio_fields("speedup", result.speedup),
        "baseline": section.baseline,
        **_ratio_fields("vs_baseline", result.over_baseline),
        "bytes_moved": record.bytes_moved,
        "bandwidth_gb_per_s": result.bandwidth_gb_per_s,
        "percent_of_copy": record.percent_of_copy if record.is_native else None,
        "percent_of_peak": result.percent_of_peak,
        "copy_ms": record.copy_ms,
        "empty_ms": record.empty_ms,
        "host_overhead_us": record.host_overhead_us,
        "empty_host_us": record.empty_host_us,
        **chain_row(record),
        "noisy": "; ".join(record.noisy),
        "timestamp": record.timestamp,
        "trace": record.place,
    }


def _ratio_fields(name: str, ratio: Estimate | None) -> dict[str, float | None]:
    values = estimate_record(ratio) or {}
    return {name: values.get("value"), f"{name}_low": values.get("low"), f"{name}_high": values.get("high")}
