"""One Trace in full, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.workload_titles import axes_name
from fib_rmsnorm.reports.records.correctness import describe_correctness
from fib_rmsnorm.reports.records.listing import each_trace_table
from fib_rmsnorm.reports.records.performance_record import describe_performance
from fib_rmsnorm.reports.records.record import fields, heading, inputs_text
from fib_rmsnorm.reports.records.rows import each_trace_rows, timestamp_of
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.schema import REFERENCE, Evaluation, EvaluationStatus, Settings, Trace, trace_id


def describe_trace(trace: Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Everything the record says: what was evaluated, whether it was right, how fast, and how that was found."""
    evaluation = trace.evaluation
    if evaluation is None:
        raise ValueError("a Workload has no evaluation")
    yield _title(trace, evaluation)
    yield ""
    yield from fields(
        {
            "Solution": (trace.solution or "") + _age(trace, catalogue),
            "Definition": trace.definition,
            "Workload": f"{axes_name(trace)}, {inputs_text(trace)} ({trace.workload.uuid})",
            "Hardware": evaluation.environment.hardware,
            "Evaluated": evaluation.timestamp,
            "Libraries": ", ".join(f"{name} {version}" for name, version in evaluation.environment.libs.items()),
            "Judged by": _judge_text(evaluation.judged_by),
            "Settings": _settings_text(evaluation.settings) if evaluation.settings else "",
            "Compiler flags": " ".join(evaluation.build_flags or []),
            "Solution SHA-256": evaluation.solution_sha256 or "",
            "Definition SHA-256": evaluation.definition_sha256 or "",
        }
    )
    if evaluation.performance:
        yield heading("Performance")
        yield from describe_performance(evaluation.performance)
    if evaluation.correctness:
        yield heading("Correctness")
        yield from describe_correctness(evaluation.correctness, is_ours=evaluation.settings is not None)
    yield from _describe_log(evaluation)
    yield from _describe_others(trace, catalogue)


def _title(trace: Trace, evaluation: Evaluation) -> Text:
    passed = evaluation.status is EvaluationStatus.PASSED
    title = Text(f"Trace: {trace_id(trace)}  ")
    title.append(evaluation.status.value, "bold green" if passed else "bold red")
    if evaluation.performance and evaluation.performance.noisy:
        title.append("  noisy", "bold yellow")
    return title


def _age(trace: Trace, catalogue: Catalogue) -> str:
    """Whether the Solution has changed since it was evaluated."""
    if trace.solution not in catalogue.solutions:
        return " (no longer in this registry)"
    return " (changed since)" if catalogue.is_earlier(trace) else ""


def _judge_text(judged_by: str | None) -> str:
    if judged_by in (None, REFERENCE):
        return "the Definition's reference alone, on the Workload's inputs" if judged_by else ""
    return f"the operator {judged_by}, on hard inputs too"


def _settings_text(settings: Settings) -> str:
    tolerances = [
        f"{name} {'of the dtype' if value is None else f'{value:g}'}"
        for name, value in (("rtol", settings.rtol), ("atol", settings.atol))
    ]
    runs = f"{count(settings.warmup_runs, 'warm-up run')}, {count(settings.num_trials, 'trial')}"
    calls = count(settings.iterations, "call") if settings.iterations else "as many calls as the median needs"
    graph = "; also in a CUDA graph" if settings.context == "graph" else ""
    return f"{', '.join(tolerances)}; {runs} of {calls}; L2 {settings.l2}{graph}"


def _describe_log(evaluation: Evaluation) -> Iterator[RenderableType]:
    if evaluation.log.strip():
        yield heading("Log")
        yield marked(evaluation.log)


def _describe_others(trace: Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Other Traces of the same Solution on the same Workload, which the same name may mean."""
    others = [
        other
        for other in catalogue.traces
        if (other.solution, other.workload.uuid) == (trace.solution, trace.workload.uuid) and other != trace
    ]
    if others:
        yield heading("Other Traces of this Solution on this Workload")
        yield each_trace_table(each_trace_rows(sorted(others, key=timestamp_of)))
