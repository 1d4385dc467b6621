"""A Solution over time, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import SolutionComparison
from fib_rmsnorm.analysis.comparing.history import Histories, Run, SolutionHistory, WorkloadHistory
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.results import latency_cell
from fib_rmsnorm.reports.text.data import pick
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import count, format_apart, format_change, format_changes

_MARKS = "* marks new sources."
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
                title=workload.title,
            )
        for workload in each.workloads:
            for run in workload.runs:
                if run.record.noisy:
                    yield Doubt(f"Noisy: {_name(workload, run)}: {'; '.join(run.record.noisy)}")
    if any(run.change for each in found.histories for line in each.workloads for run in line.runs):
        yield (
            "Change: against the newest earlier run that has the same device, timer, clock, cache state and"
            " version of the Definition. A verdict is that of `compare`: all intervals together have a confidence of"
            f" 95% (each has {found.confidence:.2%}), and include what a median drifts from run to run and from session"
            f" to session. {_MARKS}"
        )
    else:
        yield (
            "No run can be compared with an earlier one: that must be timed, and of the same device, timer, clock,"
            f" cache state and version of the Definition. {_MARKS}"
        )


def _changes(each: SolutionHistory) -> Iterator[Part]:
    runs = sum(len(workload.runs) for workload in each.workloads)
    changes = each.changes
    yield f"{count(runs, 'run')}, {count(len(changes), 'change') if changes else 'no change'}."
    for workload, run in changes:
        sources = "new sources" if run.is_new_content else "the same sources"
        yield Doubt(f"{_name(workload, run)}: {run.verdict}{_by_how_much(run.change)}, {sources}")


def _name(workload: WorkloadHistory, run: Run) -> str:
    return f"{workload.title} on {_when(run.record)}"


def _when(record: TraceRecord) -> str:
    return record.timestamp[:16].replace("T", " ")


def _by_how_much(change: SolutionComparison | None) -> str:
    ratio = change.ratio if change else None
    return f" ({format_change(ratio.value)}, {format_changes(ratio.low, ratio.high)})" if ratio else ""


def _row(run: Run) -> Sequence[str]:
    record, ratio = run.record, run.change.ratio if run.change else None
    sources = (record.solution_sha256 or "unknown")[:_SOURCES]
    verdict = run.verdict if record.passed else f"{run.verdict}: {record.status}"
    return (
        _when(record),
        f"{sources} *" if run.is_new_content else sources,
        latency_cell(record),
        record.timer or "",
        format_change(ratio.value) if ratio else "",
        format_changes(ratio.low, ratio.high) if ratio else "",
        f"tie, up to {format_apart(ratio.apart)} apart" if ratio and verdict == "tie" else verdict,
    )


def histories_record(found: Histories) -> dict[str, Any]:
    """The same in numbers."""
    return {
        "drift": found.drift,
        "confidence_of_each": found.confidence,
        "histories": [
            {
                **pick(each, "definition", "solution", "hardware"),
                "changes": len(each.changes),
                "workloads": [
                    {
                        **pick(line.runs[0].record, "workload", "axes", "scalars"),
                        "runs": [_run_record(run) for run in line.runs],
                    }
                    for line in each.workloads
                ],
            }
            for each in found.histories
        ],
    }


def _run_record(run: Run) -> dict[str, Any]:
    record = run.record
    return {
        **pick(record, "timestamp", "definition_sha256", "solution_sha256", "status"),
        **pick(run, "is_new_content", "conditions", "verdict", "is_change"),
        **pick(record, "latency_ms", "latency_low_ms", "latency_high_ms", "noisy"),
        "change": _change_record(run.change),
        "trace": record.place,
    }


def _change_record(change: SolutionComparison | None) -> dict[str, Any] | None:
    return {"since": change.old[-1].timestamp, **pick(change, "verdict", "ratio")} if change else None
