"""Whether a Solution was correct, in words: errors, tolerances, the cases it was judged on, and distances in ULP."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from rich.console import RenderableType
from rich.table import Table

from fib_rmsnorm.reports.records.record import fields
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.schema import Correctness, JudgedCase, Tolerance, UlpStatistics

Taken = TypeVar("Taken")


_CASES = TypeAdapter(list[JudgedCase])
_TOLERANCES = TypeAdapter(dict[str, Tolerance])


def describe_correctness(correctness: Correctness, *, is_ours: bool) -> Iterator[RenderableType]:
    """The largest errors, what was tolerated, and each case; `is_ours` says who wrote `extra`."""
    extra: dict[str, Any] = dict(correctness.extra or {})
    tolerances = (_take(extra, "tolerance", _TOLERANCES) if is_ours else None) or {}
    cases = (_take(extra, "cases", _CASES) if is_ours else None) or []
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
    if not cases:
        return
    groups: dict[str, list[JudgedCase]] = {}
    for case in cases:
        groups.setdefault(case.case, []).append(case)
    yield ""
    yield _cases_table(groups)
    for output in _measured_outputs(cases):
        yield ""
        yield _ulp_table(groups, output)


def _take(extra: dict[str, Any], name: str, kind: TypeAdapter[Taken]) -> Taken | None:
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


def _cases_table(groups: dict[str, list[JudgedCase]]) -> Table:
    """The cases it was judged on; those of the same name are one row."""
    return plain_table(
        ("judged on", ">times", ">largest absolute error", ">wrong elements"),
        (
            (
                name,
                str(len(cases)),
                f"{max(case.max_absolute_error for case in cases):.3g}",
                str(sum(case.mismatched for case in cases)),
            )
            for name, cases in groups.items()
        ),
    )


def _measured_outputs(cases: list[JudgedCase]) -> list[str]:
    """The outputs whose distances were counted: those with a dtype that has ULPs."""
    return list(dict.fromkeys(name for case in cases for name, ulp in case.ulp.items() if ulp))


def _ulp_table(groups: dict[str, list[JudgedCase]], output: str) -> Table:
    """The elements of an output by their distance from the exact answer, with the reference for comparison."""
    rows: dict[str, list[UlpStatistics]] = {}
    for name, cases in groups.items():
        rows[name] = [ulp for case in cases if (ulp := case.ulp.get(output))]
        rows[f"{name}, by the reference"] = [ulp for case in cases if (ulp := case.reference_ulp.get(output))]
    rows = {name: found for name, found in rows.items() if found}
    histograms = {name: _add_up(found) for name, found in rows.items()}
    buckets = list(dict.fromkeys(bucket for histogram in histograms.values() for bucket in histogram))
    while len(buckets) > 1 and not any(histogram[buckets[-1]] for histogram in histograms.values()):
        buckets.pop()
    return plain_table(
        (f"ULP of {output}", ">maximum", ">mean", *(f">{bucket} ULP" for bucket in buckets)),
        (
            (
                name,
                str(max(ulp.maximum for ulp in found)),
                f"{_mean(found):.3g}",
                *(str(histograms[name][bucket]) for bucket in buckets),
            )
            for name, found in rows.items()
        ),
    )


def _add_up(found: list[UlpStatistics]) -> Counter[str]:
    total: Counter[str] = Counter()
    for ulp in found:
        total.update(ulp.histogram)
    return total


def _mean(found: list[UlpStatistics]) -> float:
    """The mean over all elements, as each histogram counts them."""
    elements = [sum(ulp.histogram.values()) for ulp in found]
    weighted = sum(ulp.mean * number for ulp, number in zip(found, elements, strict=True))
    return float(weighted / max(1, sum(elements)))
