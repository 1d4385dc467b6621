"""A line for each evaluation as it arrives, and what to know about all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from fib_rmsnorm.analysis.difference import RunLatency, find_speedup
from fib_rmsnorm.registry.workload_titles import NamedWorkload, show_name, title_workloads
from fib_rmsnorm.reports.text.console import Folded
from fib_rmsnorm.reports.text.units import (
    count,
    format_either_side,
    format_latency,
    format_percent,
    format_range,
    format_ratio,
)
from fib_rmsnorm.schema import REFERENCE, Chain, Check, Performance, Trace, list_cases

_AXES_WIDTH = 11


def folded_result(told: Trace | Check, name_width: int, title: str = "", *, tells_why: bool = True) -> Folded:
    """`result_line` for a terminal, whose width it respects: what has no room goes on below the Solution's name."""
    return Folded(result_line(told, name_width, title, tells_why=tells_why), _AXES_WIDTH + 2)


def result_line(told: Trace | Check, name_width: int, title: str = "", *, tells_why: bool = True) -> Text:
    """One evaluation, or one verdict without a time, in one line.

    `title` tells the Workload from others with the same axes; `tells_why` adds the reason for a failure.
    """
    check = told if isinstance(told, Check) else Check.of(told)
    title = title or NamedWorkload.of(told.workload).title()
    line = Text(f"{title:<{_AXES_WIDTH}}  {told.solution or '':<{name_width}}  ")
    line.append(f"{check.status.value:<6}", style="green" if check.passed else "bold red")
    performance = told.performance if isinstance(told, Trace) else None
    if performance:
        line.append(f"  {_describe_time(performance)}")
    elif check.passed:
        line.append(f"  {count(len(list_cases(check.correctness)), 'case')} judged")
    elif tells_why:
        line.append(f"  {first_line(check.log)}")
    if performance and performance.noisy and not performance.interpreted:
        line.append("  noisy", style="yellow")
    return line


def _describe_time(performance: Performance) -> str:
    if performance.interpreted:
        return "interpreted, so not timed"
    percent = performance.percent_of_copy
    parts = [
        f"{format_latency(performance.latency_ms):>8} {_either_side(performance)}".rstrip(),
        _chain_text(performance.chain) if performance.chain else "",
        f"{format_percent(percent):>4} of copy" if percent is not None else "",
        f"{factor:>5}" if (factor := _factor_text(performance)) else "",
    ]
    return "  ".join(filter(None, parts))


def _factor_text(performance: Performance) -> str:
    """How many times as fast as the reference, by the two latencies that stand beside it."""
    speedup = find_speedup(performance)
    return format_ratio(speedup.value) if speedup else ""


def _either_side(performance: Performance) -> str:
    latency = RunLatency.of(performance)
    return format_either_side(latency.interval_ms) if latency else ""


def _chain_text(chain: Chain) -> str:
    if chain.chained_latency_ms is None:
        return "not captured in a graph"
    both = [chain.chained_latency_ms, *([chain.dependent_latency_ms] if chain.dependent_latency_ms is not None else [])]
    return f"{' / '.join(map(format_latency, both))} in a graph"


def first_line(log: str) -> str:
    """The reason of a failure: the first line of its log."""
    return log.strip().partition("\n")[0]


def marks(trace: Trace) -> list[str]:
    """Why a Trace's latency is noisy."""
    return trace.performance.noisy if trace.performance else []


def describe_load(traces: Iterable[Trace]) -> str:
    """The share of the cores that other processes took during the trials; empty where it was not measured."""
    clocks = (trace.performance.clocks for trace in traces if trace.performance)
    shares = [each.other_share for each in clocks if each and each.other_share is not None]
    return f"other processes took {format_range(shares, '{:.0%}'.format)} of the cores" if shares else ""


def results_footnotes(traces: Sequence[Trace]) -> list[str]:
    """Where to read why a result is noisy and what failed, what was judged weakly, and the machine's load."""
    noisy = [trace for trace in traces if marks(trace)]
    failed = [trace for trace in traces if trace.status != "PASSED"]
    titles = title_workloads(NamedWorkload.of(trace.workload) for trace in traces)

    def show(trace: Trace) -> str:
        return f"fib-rmsnorm show {show_name(trace.solution or '', titles[trace.workload.uuid])}"

    found = []
    if noisy:
        found.append(f"Noisy: {marks(noisy[0])[0]}. All reasons: {show(noisy[0])}")
    if failed:
        found.append(f"Full failure logs: {show(failed[0])}")
    if any(trace.evaluation and trace.evaluation.judged_by == REFERENCE for trace in traces):
        found.append("Judged by the reference alone, on the Workload's inputs: no known operator computes the same")
    if load := describe_load(traces):
        found.append(f"During the trials, {load}.")
    return found
