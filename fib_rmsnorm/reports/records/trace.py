"""One Trace in full: what was evaluated, whether it was correct, and every number that was recorded, marks first."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.comparing.outputs import add_up_ulps, largest
from fib_rmsnorm.analysis.difference import find_speedup
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.reports.differences import largest_text, list_buckets
from fib_rmsnorm.reports.records.record import describe_definition, describe_solution, fields, heading, inputs_text
from fib_rmsnorm.reports.text.control_characters import harmless, marked
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, format_range, format_ratio
from fib_rmsnorm.schema import (
    AGAINST,
    REFERENCE,
    Correctness,
    Definition,
    Evaluation,
    EvaluationStatus,
    JudgedCase,
    Performance,
    Solution,
    Trace,
    UlpStatistics,
    list_cases,
)


def describe_record(record: Definition | Solution | Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """A Definition, a Solution or a Trace in full."""
    if isinstance(record, Definition):
        return describe_definition(record, catalogue)
    return describe_solution(record, catalogue) if isinstance(record, Solution) else _describe_trace(record, catalogue)


def _describe_trace(trace: Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Everything the record says: what was evaluated, whether it was correct, how fast, and how that was found."""
    evaluation = trace.evaluation
    if evaluation is None:
        raise ValueError("a Workload has no evaluation")
    settings = evaluation.settings
    yield _title(trace, evaluation)
    yield ""
    yield from fields(
        {
            "Solution": (trace.solution or "") + _age(trace, catalogue),
            "Definition": trace.definition,
            "Workload": f"{assignments(trace.workload.axes)}, {inputs_text(trace)} ({trace.workload.uuid})",
            "Hardware": evaluation.environment.hardware,
            "Evaluated": evaluation.timestamp,
            "Libraries": ", ".join(f"{name} {version}" for name, version in evaluation.environment.libs.items()),
            "Judged by": _judge_text(evaluation.judged_by),
            "Settings": assignments(settings.model_dump(exclude_none=True)) if settings else "",
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
        yield from _describe_correctness(evaluation.correctness, is_ours=settings is not None)
    if evaluation.log.strip():
        yield heading("Log")
        yield marked(evaluation.log)


def _title(trace: Trace, evaluation: Evaluation) -> Text:
    passed = evaluation.status is EvaluationStatus.PASSED
    title = Text(f"Trace: {trace.solution} at {assignments(trace.workload.axes)}  ")
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


def _describe_correctness(correctness: Correctness, *, is_ours: bool) -> Iterator[RenderableType]:
    """The errors and what was tolerated, by their names, and each case; `is_ours` says who wrote `extra`."""
    facts = correctness.model_dump(mode="json")
    extra: dict[str, Any] = facts.pop("extra") or {}
    cases: list[JudgedCase] = []
    if is_ours:
        with suppress(ValidationError):
            cases = list_cases(correctness)
            extra.pop("cases", None)
        extra.pop(AGAINST, None)  # which `report --against` tells
    yield from fields(dict(_name_facts("", {**facts, **extra})))
    groups: dict[str, list[JudgedCase]] = {}
    for case in cases:
        groups.setdefault(case.case, []).append(case)
    tables = [_cases_table(groups)] if cases else []
    measured = dict.fromkeys(name for case in cases for name, ulp in case.ulp.items() if ulp)
    tables += [_ulp_table(groups, output) for output in measured]
    for table in tables:
        yield ""
        yield table


def _cases_table(groups: dict[str, list[JudgedCase]]) -> Grid:
    """The cases it was judged on; those of the same name are one row."""
    return Grid(
        ("judged on", ">times", ">largest absolute error", ">wrong elements"),
        (
            (
                name,
                str(len(cases)),
                largest_text(largest(case.max_absolute_error for case in cases)),
                str(sum(case.mismatched for case in cases)),
            )
            for name, cases in groups.items()
        ),
    )


def _ulp_table(groups: dict[str, list[JudgedCase]], output: str) -> Grid:
    """The elements of an output by their distance from the exact answer, with the reference for comparison."""
    rows: dict[str, list[UlpStatistics]] = {}
    for name, cases in groups.items():
        rows[name] = [ulp for case in cases if (ulp := case.ulp.get(output))]
        rows[f"{name}, by the reference"] = [ulp for case in cases if (ulp := case.reference_ulp.get(output))]
    totals = {name: add_up_ulps(found) for name, found in rows.items() if found}
    buckets = list_buckets(totals.values())
    return Grid(
        (f"ULP of {output}", ">maximum", ">mean", *(f">{bucket} ULP" for bucket in buckets)),
        (
            (name, str(ulp.maximum), f"{ulp.mean:.3g}", *(str(ulp.histogram.get(bucket, 0)) for bucket in buckets))
            for name, ulp in totals.items()
        ),
    )


def describe_performance(performance: Performance) -> Iterator[RenderableType]:
    """Marks first, then each fact by the name and in the unit that the Trace has; unknown facts are left out."""
    if performance.interpreted:
        yield "Correct, and not timed: Triton's interpreter ran the kernel."
        return
    for reason in performance.noisy:
        yield Text.assemble(("noisy", "bold yellow"), (f": {harmless(reason)}", "yellow"))
    if performance.noisy:
        yield ""
    facts = performance.model_dump(mode="json", exclude={"noisy", "interpreted", "speedup_factor"})
    if speedup := find_speedup(performance):
        interval = format_range((speedup.low, speedup.high), format_ratio)
        facts["speedup"] = f"{format_ratio(speedup.value)} ({interval})"
    yield from fields(dict(_name_facts("", facts)))


def _name_facts(part: str, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts of a part and of its parts: `chain.links`, `clocks.during_mhz`."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _name_facts(f"{part}{name}.", value)
        elif value not in (None, []):
            yield f"{part}{name}", value if isinstance(value, str) else json.dumps(value)
