"""One Trace in full, in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.lookup import axes_name
from fib_rmsnorm.reports.listing import each_trace_table
from fib_rmsnorm.reports.records import fields, heading, inputs_text
from fib_rmsnorm.reports.rows import each_trace_rows, timestamp_of
from fib_rmsnorm.reports.sources import harmless
from fib_rmsnorm.reports.tables import plain_table
from fib_rmsnorm.reports.units import count, format_bytes, format_latency
from fib_rmsnorm.schema import (
    Correctness,
    Evaluation,
    EvaluationStatus,
    Performance,
    Settings,
    Trace,
    digest,
    trace_id,
)


def describe_trace(trace: Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Everything the record says: what was evaluated, whether it was right, how fast, and how that was found."""
    evaluation = trace.evaluation
    if evaluation is None:
        raise ValueError("a Workload has no evaluation")
    passed = evaluation.status is EvaluationStatus.PASSED
    yield Text.assemble(
        f"Trace: {trace_id(trace)}  ", (evaluation.status.value, "bold green" if passed else "bold red")
    )
    yield ""
    yield from fields(
        {
            "Solution": (trace.solution or "") + _age(trace, catalogue),
            "Definition": trace.definition,
            "Workload": f"{axes_name(trace)}, {inputs_text(trace)} ({trace.workload.uuid})",
            "Hardware": evaluation.environment.hardware,
            "Evaluated": evaluation.timestamp,
            "Libraries": ", ".join(f"{name} {version}" for name, version in evaluation.environment.libs.items()),
            "Settings": _settings_text(evaluation.settings) if evaluation.settings else "",
            "Solution SHA-256": evaluation.solution_sha256 or "",
            "Definition SHA-256": evaluation.definition_sha256 or "",
        }
    )
    if evaluation.performance:
        yield heading("Performance")
        yield from fields(_performance_fields(evaluation.performance))
    if evaluation.correctness:
        yield heading("Correctness")
        yield from _describe_correctness(evaluation.correctness, is_ours=evaluation.settings is not None)
    yield from _describe_log(evaluation)
    yield from _describe_others(trace, catalogue)


def _age(trace: Trace, catalogue: Catalogue) -> str:
    """Whether what was evaluated is what is there now."""
    solution = catalogue.solutions.get(trace.solution or "")
    recorded = trace.evaluation.solution_sha256 if trace.evaluation else None
    if solution is None:
        return " (no longer in this registry)"
    return " (changed since)" if recorded and recorded != digest(solution) else ""


def _settings_text(settings: Settings) -> str:
    tolerances = [
        f"{name} {'of the dtype' if value is None else f'{value:g}'}"
        for name, value in (("rtol", settings.rtol), ("atol", settings.atol))
    ]
    runs = f"{count(settings.warmup_runs, 'warm-up run')}, {count(settings.num_trials, 'trial')}"
    calls = count(settings.iterations, "call") if settings.iterations else "as many calls as the median needs"
    return f"{', '.join(tolerances)}; {runs} of {calls}; L2 {settings.l2}"


def _performance_fields(performance: Performance) -> dict[str, str]:
    spread = ""
    if performance.latency_p5_ms is not None and performance.latency_p95_ms is not None:
        low, high = format_latency(performance.latency_p5_ms), format_latency(performance.latency_p95_ms)
        spread = f", 5% to 95%: {low} to {high}"
    samples = f", {count(performance.samples, 'call')}" if performance.samples else ""
    latency = f"{format_latency(performance.latency_ms)} (median{samples}{spread})"
    reference = format_latency(performance.reference_latency_ms)
    bandwidth, moved = performance.bandwidth_gb_per_s, performance.bytes_moved
    cold = {True: ", L2 evicted before each call", False: ", L2 warm", None: ""}[performance.cold_l2]
    told = {
        "Latency": latency,
        "Reference": f"{reference}; the Solution is {performance.speedup_factor:.2f}x as fast",
        "Bandwidth": f"{bandwidth:.1f} GB/s" if bandwidth is not None else "",
        "Bytes moved": f"{format_bytes(moved)} (inputs and outputs, each once)" if moved is not None else "",
        "Timer": f"{performance.timer}{cold}" if performance.timer else "",
        "Build": f"{performance.build_s:.2f} s" if performance.build_s is not None else "",
    }
    if performance.interpreted:
        # Such a time says nothing about the kernel, and neither does what is computed from it.
        told |= {"Latency": f"{latency}; interpreted: no measure of the kernel", "Reference": reference}
        told |= {"Bandwidth": ""}
    return told


def _describe_correctness(correctness: Correctness, *, is_ours: bool) -> Iterator[RenderableType]:
    extra: dict[str, Any] = dict(correctness.extra or {})
    # What others write under these names may have any form.
    tolerances = extra.pop("tolerance", {}) if is_ours else {}
    cases = extra.pop("cases", []) if is_ours else []
    yield from fields(
        {
            "Largest errors": (
                f"absolute {correctness.max_absolute_error:.3g}, relative {correctness.max_relative_error:.3g}"
                " (on the Workload's own inputs)"
            ),
            **{
                f"Tolerance of {name}": f"|error| <= {bound['rtol']:g} * |expected| + {bound['atol']:.2g}"
                for name, bound in tolerances.items()
            },
            **{name: json.dumps(value) for name, value in extra.items()},
        }
    )
    if cases:
        yield ""
        yield _cases_table(cases)


def _cases_table(cases: list[dict[str, Any]]) -> Table:
    """The cases it was judged on; those that read the same are counted."""
    alike = Counter((case["case"], case["max_absolute_error"], case["mismatched"]) for case in cases)
    return plain_table(
        ("judged on", ">times", ">largest absolute error", ">wrong elements"),
        (
            (name, str(times), f"{float(error):.3g}", str(mismatched))
            for (name, error, mismatched), times in alike.items()
        ),
    )


def _describe_log(evaluation: Evaluation) -> Iterator[RenderableType]:
    if evaluation.log.strip():
        yield heading("Log")
        yield harmless(evaluation.log.strip("\n"))


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
