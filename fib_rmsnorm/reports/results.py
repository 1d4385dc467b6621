"""The results of Traces: a section for each set of conditions, with the answer and a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fib_rmsnorm.analysis.difference import Estimate, find_interval, recorded
from fib_rmsnorm.analysis.results import Result, SectionResults
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.selection import show_name
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import (
    count,
    format_bandwidth,
    format_bytes,
    format_either_side,
    format_latency,
    format_percent,
    format_range,
    format_ratio,
    join_names,
    pick,
)
from fib_rmsnorm.schema import REFERENCE, Performance


@dataclass(frozen=True)
class Column:
    """A column of the results; `>` before its title aligns it to the right."""

    title: str
    text: Callable[[Result], str]
    value: Callable[[Result], float | str | None]
    """By which a browser sorts; None comes last."""


def result_columns(section: SectionResults) -> list[Column]:
    """The columns of the table and the page; columns that are empty for every result are left out."""
    columns = [
        _text("solution", lambda result: result.label),
        _text("language", lambda result: title_of(result.record.language)),
        Column(">latency", latency_cell, lambda r: r.record.latency_ms if r.record.is_native else None),
        Column(">in a graph", _chained_cell, lambda r: r.record.chained_latency_ms),
        Column(">dependent", _dependent_cell, lambda r: r.record.dependent_latency_ms),
        _number(">bandwidth", lambda result: result.record.bandwidth_gb_per_s, format_bandwidth),
        Column(">of copy", share_of_copy, lambda r: r.record.percent_of_copy),
        _number(">of peak", lambda result: result.percent_of_peak, format_percent),
        Column(
            ">speedup", lambda r: speedup_text(r.record, r.speedup), lambda r: r.speedup.value if r.speedup else None
        ),
        _number(baseline_column(section), lambda r: r.over_baseline.value if r.over_baseline else None, format_ratio),
        _number(">host", lambda result: result.record.host_overhead_us, lambda us: format_latency(us / 1e3)),
        _number(">memory", lambda result: result.record.peak_memory_bytes or None, format_bytes),
        _text("", lambda result: result.mark),
    ]
    return [column for column in columns if any(map(column.text, section.results))]


def _text(title: str, text: Callable[[Result], str]) -> Column:
    return Column(title, text, text)


def _number(title: str, value: Callable[[Result], float | None], form: Callable[[float], str]) -> Column:
    def text(result: Result) -> str:
        number = value(result)
        return form(number) if number is not None else ""

    return Column(title, text, value)


def baseline_column(section: SectionResults) -> str:
    """The title of how many times as fast a result is as the baseline."""
    return ">vs torch" if section.baseline and "torch" in section.baseline else ">vs baseline"


def number_cell(latency_ms: float | None, interval: Estimate | None) -> str:
    """`137 us ±9%`; nothing where it is not known."""
    return f"{format_latency(latency_ms)} {format_either_side(interval)}".rstrip() if latency_ms is not None else ""


def latency_cell(result: Result) -> str:
    """`137 us ±9%`; nothing for what failed or was not timed."""
    return number_cell(result.record.latency_ms, find_interval(result.record)) if result.record.is_native else ""


def speedup_text(measured: TraceRecord | Performance, speedup: Estimate | None) -> str:
    """`16.8x`; `?` where no interval bounds it, and nothing where the kernel or the reference was not timed."""
    if speedup:
        return format_ratio(speedup.value)
    return "?" if measured.latency_ms and measured.reference_latency_ms and not measured.interpreted else ""


def share_of_copy(result: Result) -> str:
    """`72%`."""
    percent = result.record.percent_of_copy
    return format_percent(percent) if result.record.is_native and percent else ""


def _chained_cell(result: Result) -> str:
    record = result.record
    if record.chain_refused:
        return "not captured"
    interval = recorded(record.chained_latency_ms, record.chained_low_ms, record.chained_high_ms)
    return number_cell(record.chained_latency_ms, interval)


def _dependent_cell(result: Result) -> str:
    record = result.record
    interval = recorded(record.dependent_latency_ms, record.dependent_low_ms, record.dependent_high_ms)
    return number_cell(record.dependent_latency_ms, interval)


def section_title(section: SectionResults) -> str:
    """`rmsnorm_d4096 on NVIDIA H200, cupti, 1980 MHz, cold L2`."""
    return f"{section.definition} on {section.conditions.text}"


def describe_results(sections: Sequence[SectionResults], superseded: int) -> Iterator[Part]:
    """The answer and a table of all results, section by section, and what to know about them."""
    for section in sections:
        yield Heading(section_title(section))
        yield summarize_ranking(section)
        columns = result_columns(section)
        rows: list[list[str]] = []
        for each in section.workloads:  # the fastest first, with an empty line between Workloads
            rows += [[""] * (1 + len(columns))] if rows else []
            rows += [[each.title, *(column.text(result) for column in columns)] for result in each.results]
        yield Grid(("workload", *(column.title for column in columns)), rows)
        yield from describe_doubts(section)
    if superseded:
        yield f"{count(superseded, 'older Trace')} not shown: of equal evaluations only the newest counts."
    yield POINTER


def describe_doubts(section: SectionResults) -> Iterator[Part]:
    """The numbers that are noisy, what was not captured in a graph, and whether an operator judged."""
    yield from describe_noisy(
        (
            show_name(result.record.solution, each.title),
            [*result.record.noisy, *(f"in a graph: {reason}" for reason in result.record.chain_noisy)],
        )
        for each in section.workloads
        for result in each.results
    )
    for result in section.results:
        if refused := result.record.chain_refused:
            yield Doubt(f"Not captured in a graph: {result.label}: {harmless(refused)}")
    if any(result.record.judged_by == REFERENCE for result in section.results):
        yield "Judged by the reference alone, on the Workload's inputs: no known operator computes the same."


def summarize_ranking(section: SectionResults) -> str:
    """The fastest Solution, its distance from the copy, and how many times as fast as the reference and torch it is."""
    total, names = len(section.workloads), [each.label for each in section.leaders]
    if not names:
        return f"Nothing was timed on {count(total, 'workload')}."
    most, winners = section.leaders[0].wins, [each.winner for each in section.workloads if each.winner]
    share = f"{most} of {total}" if most < total else "both" if total == 2 else f"all {total}"
    where = section.workloads[0].title if total == 1 else f"{share} workloads"
    verb = ("is", "tie for")[len(names) > 1] if section.is_decided else ("is among", "are among")[len(names) > 1]
    told = f"{join_names(names)} {verb} the fastest on {where}."
    shares = [r.record.percent_of_copy for r in winners if not r.record.noisy]  # some would exceed the limit
    measures = (
        ("of the speed of a copy of the same bytes", format_percent, shares),
        ("that of the reference", format_ratio, [r.speedup.value for r in winners if r.speedup]),
        (f"that of {section.baseline}", format_ratio, [r.over_baseline.value for r in winners if r.over_baseline]),
    )
    reached = [
        f"{format_range(known, form)} {what}"
        for what, form, values in measures
        if (known := [value for value in values if value])
    ]
    subject = "It reaches" if section.is_decided and len(names) == 1 and most == total else "The fastest reach"
    return f"{told} {subject} {join_names(reached)}." if reached else told


def describe_noisy(found: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Doubt]:
    """Why the first of these is noisy, each a name with its reasons, and how many others are."""
    noisy = [(name, reasons) for name, reasons in found if reasons]
    for name, reasons in noisy[:1]:
        others = f" (and {len(noisy) - 1} more; --json has all reasons)" if len(noisy) > 1 else ""
        yield Doubt(f"Noisy: {name}: {'; '.join(reasons)}{others}")


def results_record(sections: Sequence[SectionResults], superseded: int) -> dict[str, Any]:
    """The same for JSON: a row for each result, with numbers as they are."""
    rows = [
        {
            "definition": section.definition,
            **pick(section.conditions, "hardware", "timer"),
            "clock_mhz": record.during_mhz,
            "cold_l2": section.conditions.cold_l2,
            **workload.identity,
            "label": result.label,
            **pick(record, "solution", "author", "language", "status"),
            "mark": result.mark,
            **pick(record, "latency_ms", "latency_low_ms", "latency_high_ms", "reference_latency_ms"),
            **pick(result.speedup, speedup="value", speedup_low="low", speedup_high="high"),
            "baseline": section.baseline,
            **pick(result.over_baseline, vs_baseline="value", vs_baseline_low="low", vs_baseline_high="high"),
            "bandwidth_gb_per_s": record.bandwidth_gb_per_s,
            "percent_of_peak": result.percent_of_peak,
            **pick(
                record, "bytes_moved", "percent_of_copy", "copy_ms", "empty_ms", "host_overhead_us", "empty_host_us"
            ),
            **pick(record, "peak_memory_bytes", "chained_latency_ms", "chained_low_ms", "chained_high_ms"),
            **pick(record, "dependent_latency_ms", "dependent_low_ms", "dependent_high_ms", "chain_refused"),
            "chain_noisy": "; ".join(record.chain_noisy),
            "noisy": "; ".join(record.noisy),
            **pick(record, "timestamp", trace="place"),
        }
        for section in sections
        for workload in section.workloads
        for result in workload.results
        for record in [result.record]
    ]
    return {"superseded": superseded, "results": rows}
