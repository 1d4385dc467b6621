"""Whether a Solution was correct, in words: errors, tolerances, the cases it was judged on, and distances in ULP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from rich.console import RenderableType
from rich.table import Table

from fib_rmsnorm.analysis.comparing.outputs import add_up, add_up_ulps
from fib_rmsnorm.reports.records.differences import difference_cells, difference_columns, largest_text, list_buckets
from fib_rmsnorm.reports.records.record import fields
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.schema import AGAINST, Correctness, Difference, JudgedCase, Peer, Tolerance, UlpStatistics

Taken = TypeVar("Taken")


_CASES = TypeAdapter(list[JudgedCase])
_TOLERANCES = TypeAdapter(dict[str, Tolerance])
_PEER = TypeAdapter(Peer)


def describe_correctness(correctness: Correctness, *, is_ours: bool) -> Iterator[RenderableType]:
    """The largest errors, what was tolerated, and each case; `is_ours` says who wrote `extra`."""
    extra: dict[str, Any] = dict(correctness.extra or {})
    tolerances = (_take(extra, "tolerance", _TOLERANCES) if is_ours else None) or {}
    cases = (_take(extra, "cases", _CASES) if is_ours else None) or []
    peer = _take(extra, AGAINST, _PEER) if is_ours else None
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
    if peer is not None and any(case.against for case in cases):
        yield ""
        yield _peer_table(groups, peer)


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
                _largest_error(cases),
                str(sum(case.mismatched for case in cases)),
            )
            for name, cases in groups.items()
        ),
    )


def _largest_error(cases: list[JudgedCase]) -> str:
    errors = [case.max_absolute_error for case in cases]
    return largest_text(None if None in errors else max(error for error in errors if error is not None))


def _measured_outputs(cases: list[JudgedCase]) -> list[str]:
    """The outputs whose distances were counted: those with a dtype that has ULPs."""
    return list(dict.fromkeys(name for case in cases for name, ulp in case.ulp.items() if ulp))


def _ulp_table(groups: dict[str, list[JudgedCase]], output: str) -> Table:
    """The elements of an output by their distance from the exact answer, with the reference for comparison."""
    rows: dict[str, list[UlpStatistics]] = {}
    for name, cases in groups.items():
        rows[name] = [ulp for case in cases if (ulp := case.ulp.get(output))]
        rows[f"{name}, by the reference"] = [ulp for case in cases if (ulp := case.reference_ulp.get(output))]
    totals = {name: add_up_ulps(found) for name, found in rows.items() if found}
    buckets = list(dict.fromkeys(bucket for total in totals.values() for bucket in total.histogram))
    while len(buckets) > 1 and not any(total.histogram.get(buckets[-1]) for total in totals.values()):
        buckets.pop()
    return plain_table(
        (f"ULP of {output}", ">maximum", ">mean", *(f">{bucket} ULP" for bucket in buckets)),
        (
            (name, str(ulp.maximum), f"{ulp.mean:.3g}", *(str(ulp.histogram.get(bucket, 0)) for bucket in buckets))
            for name, ulp in totals.items()
        ),
    )


def _peer_table(groups: dict[str, list[JudgedCase]], peer: Peer) -> Table:
    """How the outputs differ from a peer's; those of cases of the same name are one row."""
    rows: dict[tuple[str, str], list[Difference]] = {}
    for name, cases in groups.items():
        for case in cases:
            for output, difference in case.against.items():
                rows.setdefault((name, output), []).append(difference)
    found = {key: add_up(differences) for key, differences in rows.items()}
    buckets = list_buckets(found.values())
    return plain_table(
        (f"against {peer.solution}", "output", *difference_columns(buckets)),
        ((*key, *difference_cells(difference, buckets)) for key, difference in found.items()),
    )
