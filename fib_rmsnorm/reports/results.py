"""Evaluations as they come, a line each, and a table of them all."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fib_rmsnorm.reports.units import format_latency
from fib_rmsnorm.schema import Evaluation, EvaluationStatus, Trace


def axes_text(trace: Trace) -> str:
    """The Workload's axes: `batch=32`."""
    return " ".join(f"{name}={value}" for name, value in trace.workload.axes.items())


def result_line(trace: Trace, name_width: int) -> Text:
    """One evaluation in one line."""
    evaluation = trace.evaluation
    if evaluation is None:
        raise ValueError("a workload trace has no result")
    passed = evaluation.status is EvaluationStatus.PASSED
    line = Text(f"{axes_text(trace):<12}  {trace.solution or '':<{name_width}}  ")
    line.append(f"{evaluation.status.value:<9}", style="green" if passed else "bold red")
    line.append(f"  {_details(evaluation)}")
    return line


def _details(evaluation: Evaluation) -> str:
    performance = evaluation.performance
    if performance is None:
        return evaluation.log.strip().partition("\n")[0][:160]
    if performance.interpreted:
        return f"{format_latency(performance.latency_ms):>8}  interpreted: no measure of the kernel"
    bandwidth = f"{performance.bandwidth_gb_per_s:7.1f} GB/s" if performance.bandwidth_gb_per_s else ""
    return f"{format_latency(performance.latency_ms):>8}  {bandwidth}  {performance.speedup_factor:6.2f}x reference"


def results_table(traces: Sequence[Trace], title: str) -> Table:
    """Median latencies of passed evaluations, Solutions by Workload, with the speedup over the reference."""
    columns = list(dict.fromkeys(axes_text(trace) for trace in traces))
    rows = list(dict.fromkeys(trace.solution or "" for trace in traces))
    cells = {(trace.solution or "", axes_text(trace)): _cell(trace) for trace in traces}
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_row("reference", *[_reference_cell(traces, column) for column in columns])
    for row in rows:
        table.add_row(row, *[cells.get((row, column), "") for column in columns])
    return table


def _reference_cell(traces: Sequence[Trace], column: str) -> str:
    for trace in traces:
        if axes_text(trace) == column and trace.evaluation and trace.evaluation.performance:
            return format_latency(trace.evaluation.performance.reference_latency_ms)
    return ""


def _cell(trace: Trace) -> str:
    evaluation = trace.evaluation
    if evaluation is None:
        return ""
    performance = evaluation.performance
    if performance is None:
        return evaluation.status.value
    if performance.interpreted:
        return "interpreted"
    return f"{format_latency(performance.latency_ms)} ({performance.speedup_factor:.2f}x)"
