"""A Solution over time, in words and numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import SolutionComparison
from fib_rmsnorm.analysis.comparing.history import Histories, Run, SolutionHistory, WorkloadHistory
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.results import latency_cell
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import count, estimate_record, format_apart, format_change, format_changes

_MARKS = "* marks new sources. In the bars, x failed, ? was not timed, and - was measured under other conditions."
_BARS = "▁▂▃▄▅▆▇█"
_LEAST_RANGE = math.log(1.25)
"""The bars span at least this ratio, so that they do not make a mountain of noise."""
_SOURCES = 6


def describe_histories(found: Histories) -> Iterator[Part]:
    """The changes of each Solution and device, and a table of runs for each Workload."""
    for each in found.histories:
        yield Heading(f"{each.solution} ({each.definition}) on {each.hardware}")
        yield from _changes(each)
        for workload in each.workloads:
            yield Grid(
                ("evaluated", "sources", ">latency", "timer", ">change", ">interval", "verdict"),
                [_row(run) for run in workload.runs],
                title=f"{workload.title}  {sparkline(workload)}",
            )
        for workload in each.workloads:
            for run in workload.runs:
                if run.record.noisy:
                    yield Doubt(f"Noisy: {_name(workload, run)}: {'; '.join(run.record.noisy)}")
    yield from _legend(found)


def _changes(each: SolutionHistory) -> Iterator[Part]:
    runs = sum(len(workload.runs) for workload in each.workloads)
    changes = each.changes
    yield f"{count(runs, 'run')}, {count(len(changes), 'change') if changes else 'no change'}."
    for workload, run in changes:
        sources = "new sources" if run.is_new_content else "the same sources"
        yield Doubt(f"{_name(workload, run)}: {run.verdict}{_by_how_much(run.change)}, {sources}")
    for workload in each.workloads:
        if workload.overall and workload.overall.verdict in ("faster", "slower"):
            yield Doubt(
                f"{workload.title}, from the first run to the last: {workload.overall.verdict}"
                f"{_by_how_much(workload.overall)}"
            )


def _name(workload: WorkloadHistory, run: Run) -> str:
    return f"{workload.title} on {_when(run.record)}"


def _when(record: TraceRecord) -> str:
    return record.timestamp[:16].replace("T", " ")


def _by_how_much(change: SolutionComparison | None) -> str:
    if change is None or change.ratio is None:
        return ""
    return f" ({format_change(change.ratio.value)}, {_interval(change)})"


def _interval(change: SolutionComparison) -> str:
    return format_changes(change.ratio.low, change.ratio.high) if change.ratio else ""


def _row(run: Run) -> Sequence[str]:
    record, change = run.record, run.change
    sources = (record.solution_sha256 or "unknown")[:_SOURCES]
    return (
        _when(record),
        f"{sources} *" if run.is_new_content else sources,
        latency_cell(record),
        record.timer or "",
        format_change(change.ratio.value) if change and change.ratio else "",
        _interval(change) if change else "",
        _verdict(run),
    )


def _verdict(run: Run) -> str:
    if not run.record.passed:
        return f"{run.verdict}: {run.record.status}"
    if run.verdict == "tie" and run.change and run.change.ratio:
        return f"tie, up to {format_apart(run.change.ratio.apart)} apart"
    return run.verdict


def sparkline(workload: WorkloadHistory) -> str:
    """A bar for each run that can be compared with the newest, by the logarithm of its latency: `▁▁▇▁`.

    `x` failed, `?` was not timed, and `-` was measured under other conditions.
    """
    timed = [run for run in workload.runs if run.record.is_native]
    logs = [math.log(run.record.latency_ms or 1.0) for run in timed if run.conditions == timed[-1].conditions]
    low = min(logs, default=0.0)
    span = max(max(logs, default=0.0) - low, _LEAST_RANGE)
    return "".join(_bar(run, timed[-1].conditions if timed else (), low, span) for run in workload.runs)


def _bar(run: Run, conditions: tuple[str | None, ...], low: float, span: float) -> str:
    record = run.record
    if not record.passed:
        return "x"
    if not record.is_native or not record.latency_ms:
        return "?"
    if run.conditions != conditions:
        return "-"
    return _BARS[round((math.log(record.latency_ms) - low) / span * (len(_BARS) - 1))]


def _legend(found: Histories) -> Iterator[Part]:
    compared = any(run.change for each in found.histories for line in each.workloads for run in line.runs)
    if not compared:
        yield (
            "No run can be compared with an earlier one: that must be timed, and of the same device, timer, clock,"
            f" cache state and version of the Definition. {_MARKS}"
        )
        return
    yield (
        "Change: against the newest earlier run that has the same device, timer, clock, cache state and"
        " version of the Definition. A verdict is that of `compare`: all intervals together have a confidence of 95%"
        f" (each has {found.confidence:.2%}), and include what a median drifts from run to run and from session to"
        f" session. {_MARKS}"
    )


def histories_json(found: Histories) -> str:
    """The same in numbers."""
    record = {
        "drift": asdict(found.drift),
        "confidence_of_each": found.confidence,
        "histories": [
            {
                "definition": each.definition,
                "solution": each.solution,
                "hardware": each.hardware,
                "changes": len(each.changes),
                "workloads": [_workload_record(workload) for workload in each.workloads],
            }
            for each in found.histories
        ],
    }
    return json.dumps(record, indent=2) + "\n"


def _workload_record(workload: WorkloadHistory) -> dict[str, Any]:
    first = workload.runs[0].record
    return {
        "workload": first.workload,
        "axes": first.axes,
        "scalars": first.scalars,
        "overall": _change_record(workload.overall),
        "runs": [_run_record(run) for run in workload.runs],
    }


def _run_record(run: Run) -> dict[str, Any]:
    record = run.record
    return {
        "timestamp": record.timestamp,
        "definition_sha256": record.definition_sha256,
        "solution_sha256": record.solution_sha256,
        "is_new_content": run.is_new_content,
        "status": record.status,
        "conditions": run.conditions,
        "latency_ms": record.latency_ms,
        "latency_low_ms": record.interval_ms.low if record.interval_ms else None,
        "latency_high_ms": record.interval_ms.high if record.interval_ms else None,
        "noisy": record.noisy,
        "verdict": run.verdict,
        "is_change": run.is_change,
        "change": _change_record(run.change),
        "trace": record.place,
    }


def _change_record(change: SolutionComparison | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "since": change.old[-1].timestamp,
        "verdict": change.verdict,
        "ratio": estimate_record(change.ratio),
    }
