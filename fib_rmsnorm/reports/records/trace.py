"""One Trace in full: what was evaluated, whether it was correct, and every number that was recorded, marks first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.comparing.outputs import add_up_ulps
from fib_rmsnorm.analysis.difference import find_speedup
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.workload_titles import axes_name
from fib_rmsnorm.reports.differences import largest_text, list_buckets
from fib_rmsnorm.reports.records.record import Told, fields, heading, inputs_text, told
from fib_rmsnorm.reports.text.control_characters import harmless, marked
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import (
    assignments,
    format_bandwidth,
    format_bytes,
    format_latency,
    format_percent,
    format_ratio,
    format_share,
)
from fib_rmsnorm.schema import (
    AGAINST,
    REFERENCE,
    Correctness,
    Evaluation,
    EvaluationStatus,
    JudgedCase,
    Performance,
    Tolerance,
    Trace,
    UlpStatistics,
    trace_id,
)

_CASES = TypeAdapter(list[JudgedCase])
_TOLERANCES = TypeAdapter(dict[str, Tolerance])


def describe_trace(trace: Trace, catalogue: Catalogue) -> Iterator[RenderableType]:
    """Everything the record says: what was evaluated, whether it was correct, how fast, and how that was found."""
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
            "Settings": told(evaluation.settings, lambda each: assignments(each.model_dump(exclude_none=True))),
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
        yield from _describe_correctness(evaluation.correctness, is_ours=evaluation.settings is not None)
    if evaluation.log.strip():
        yield heading("Log")
        yield marked(evaluation.log)


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


def _describe_correctness(correctness: Correctness, *, is_ours: bool) -> Iterator[RenderableType]:
    """The largest errors, what was tolerated, and each case; `is_ours` says who wrote `extra`."""
    extra: dict[str, Any] = dict(correctness.extra or {})
    tolerances = (_take(extra, "tolerance", _TOLERANCES) if is_ours else None) or {}
    cases = (_take(extra, "cases", _CASES) if is_ours else None) or []
    if is_ours:
        extra.pop(AGAINST, None)  # which `report --against` tells
    yield from fields(
        {
            "Largest errors": (
                f"absolute {correctness.max_absolute_error:.3g}, relative {correctness.max_relative_error:.3g}"
                " (on the Workload's own inputs)"
            ),
            **{f"Tolerance of {name}": _bound_text(bound.rtol, bound.atol) for name, bound in tolerances.items()},
            **{name: json.dumps(value) for name, value in extra.items()},
        }
    )
    groups: dict[str, list[JudgedCase]] = {}
    for case in cases:
        groups.setdefault(case.case, []).append(case)
    tables = [_cases_table(groups)] if cases else []
    measured = dict.fromkeys(name for case in cases for name, ulp in case.ulp.items() if ulp)
    tables += [_ulp_table(groups, output) for output in measured]
    for table in tables:
        yield ""
        yield table


def _take(extra: dict[str, Any], name: str, kind: TypeAdapter[Told]) -> Told | None:
    """Take what `extra` holds under a name; what others write there may have any form, and stays."""
    try:
        taken = kind.validate_python(extra.get(name))
    except ValidationError:
        return None
    del extra[name]
    return taken


def _bound_text(rtol: float | None, atol: float | None) -> str:
    """A Trace may lack them: JSON has no infinity."""
    if rtol is None or atol is None:
        return "not recorded: any result may have passed"
    return f"|error| <= {rtol:g} * |expected| + {atol:.2g}"


def _cases_table(groups: dict[str, list[JudgedCase]]) -> Grid:
    """The cases it was judged on; those of the same name are one row."""
    return Grid(
        ("judged on", ">times", ">largest absolute error", ">wrong elements"),
        (
            (name, str(len(cases)), _largest_error(cases), str(sum(case.mismatched for case in cases)))
            for name, cases in groups.items()
        ),
    )


def _largest_error(cases: list[JudgedCase]) -> str:
    errors = [case.max_absolute_error for case in cases]
    return largest_text(None if None in errors else max(error for error in errors if error is not None))


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


_FORMS: dict[str, Callable[[float], str]] = {
    "_ms": format_latency,
    "_us": lambda us: format_latency(us / 1e3),
    "_s": lambda seconds: f"{seconds:.2f} s",
    "_gb_per_s": format_bandwidth,
    "_mhz": lambda mhz: f"{mhz:.0f} MHz",
    "_temperature_c": lambda heat: f"{heat:.0f} °C",
    "_bytes": format_bytes,
    "bytes_moved": format_bytes,
    "percent_of_copy": format_percent,
    "_difference": format_share,
    "_scatter": format_share,
    "_share": format_share,
}
"""What makes text of a number, by the end of its name, the longest that fits."""
_UNIT = re.compile("_(ms|us|s|gb_per_s|mhz|c|bytes)$")
"""What a number's text tells, and its name need not."""
_PARTS = ("ceiling", "chain", "clocks")


def describe_performance(performance: Performance) -> Iterator[RenderableType]:
    """Marks first, then one fact per line; unknown facts are left out."""
    if performance.interpreted:
        yield "Correct, and not timed: Triton's interpreter ran the kernel."
        return
    for reason in performance.noisy:
        yield Text.assemble(("noisy", "bold yellow"), (f": {harmless(reason)}", "yellow"))
    if performance.noisy:
        yield ""
    values = performance.model_dump(exclude={"noisy", "interpreted", "speedup_factor"})
    parts = {name: values.pop(name) for name in _PARTS}
    if speedup := find_speedup(performance):
        values["speedup"] = (
            f"{format_ratio(speedup.value)} ({format_ratio(speedup.low)} to {format_ratio(speedup.high)})"
        )
    yield from fields(_tell(values))
    for name, part in parts.items():
        if part:
            yield ""
            yield from fields({f"{name}, {fact}": text for fact, text in _tell(part).items()})


def _tell(values: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a part in words; the bounds of an interval are one."""
    told = {}
    for name, value in values.items():
        if "_high_" in name or value in (None, [], {}):
            continue
        if "_low_" in name:
            high = values.get(name.replace("_low_", "_high_"))
            told[name.partition("_low_")[0] + ", 95% interval"] = f"{_text(name, value)} to {_text(name, high)}"
        elif name == "launches":
            told |= {f"kernel {number}": _launch_text(each) for number, each in enumerate(value, start=1)}
        else:
            told[name] = _text(name, value)
    return {_UNIT.sub("", name).replace("a_a", "A/A").replace("_", " "): text for name, text in told.items()}


def _launch_text(launch: Mapping[str, Any]) -> str:
    grid, block = (" x ".join(map(str, launch[size])) for size in ("grid", "block"))
    rest = ", ".join(f"{launch[name]} {name.replace('_', ' ')}" for name in list(launch)[3:])
    return f"{launch['name']}: grid {grid}, block {block}, {rest}"


def _text(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(_tell(value).values())
    if isinstance(value, list | tuple):
        return ", ".join(_text(name, each) for each in value)
    ends = [end for end in _FORMS if name.endswith(end)]
    return _FORMS[max(ends, key=len)](value) if ends and isinstance(value, int | float) else str(value)
