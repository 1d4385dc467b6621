"""Outputs of Solutions beside those of a peer, as tables: by Definition, device and peer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.analysis.comparing.outputs import OutputDifference
from fib_rmsnorm.registry.workload_titles import show_name, title_by_definition
from fib_rmsnorm.reports.results import flat_row
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import assignments

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.trace_record import TraceRecord
    from fib_rmsnorm.schema import Definition, Difference

_KINDS = {"workload": "its own", "hard": "hard", "awkward": "awkward size", "timed": "timed call"}


def describe_differences(found: Sequence[OutputDifference], definitions: Mapping[str, Definition]) -> Iterator[Part]:
    """A table for each device, Definition and peer. A Definition that is not known has no hidden size and dtypes."""
    for (hardware, name, peer), group in _tables(found):
        mine = list(group)
        definition = definitions.get(name)
        yield Heading(f"{name} on {hardware}: outputs against {peer}")
        yield _grid(mine, definition)
        if definition is not None:
            yield f"{name} takes {_list_inputs(definition)}."
    yield (
        "Inputs: the Workload's own, hard ones, or an awkward size. Relative: over the peer's value. Equal: elements of"
        " the same value; the others by their distance in units in the last place (ULP). A difference is not an error:"
        " the verdict is in fib-rmsnorm show."
    )


def describe_failures(failed: Sequence[TraceRecord]) -> list[str]:
    """A line that names the Solutions without a row, by the Workloads on which they failed; none if there are none."""
    if not failed:
        return []
    titles = title_by_definition((each.definition, each.named_workload) for each in failed)
    names = (show_name(each.solution, titles[each.definition][each.workload]) for each in failed)
    told = [f"{name} ({each.status})" for name, each in zip(names, failed, strict=True)]
    return [f"Not compared, because of failures: {', '.join(told)}."]


def _tables(found: Iterable[OutputDifference]) -> Iterator[tuple[tuple[str, str, str], Iterator[OutputDifference]]]:
    yield from groupby(found, key=lambda each: (each.record.hardware, each.record.definition, each.peer.solution))


def _list_inputs(definition: Definition) -> str:
    return ", ".join(f"{name} ({spec.dtype.value})" for name, spec in definition.inputs.items())


def _grid(found: Sequence[OutputDifference], definition: Definition | None) -> Grid:
    consts = definition.const_axes if definition else {}
    outputs = definition.outputs if definition else {}
    axes = list(dict.fromkeys(name for each in found for name in each.record.axes))
    buckets = list_buckets([each.difference for each in found])
    rows = []
    for each in found:
        dtype = outputs[each.output].dtype.value if each.output in outputs else ""
        rows.append(
            (
                each.record.solution,
                *(str(each.record.axes.get(axis, "")) for axis in axes),
                *map(str, consts.values()),
                each.output,
                dtype,
                _KINDS[each.kind],
                *difference_cells(each.difference, buckets),
            )
        )
    sizes = [f">{name}" for name in (*axes, *consts)]
    return Grid(("solution", *sizes, "output", "dtype", "inputs", *difference_columns(buckets)), rows)


def list_buckets(differences: Iterable[Difference]) -> list[str]:
    """The buckets of distances beyond 0, up to the last that any has."""
    counted = [each.ulp.histogram for each in differences if each.ulp]
    names = list(dict.fromkeys(bucket for histogram in counted for bucket in histogram))
    while names and not any(histogram.get(names[-1]) for histogram in counted):
        names.pop()
    return names[1:]


def difference_columns(buckets: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns that `difference_cells` fills."""
    return (">largest", ">relative", ">equal", *(f">{bucket} ULP" for bucket in buckets), ">largest ULP")


def difference_cells(difference: Difference, buckets: Sequence[str]) -> tuple[str, ...]:
    """The cells of one difference."""
    ulp = difference.ulp
    counts = [str(ulp.histogram.get(bucket, 0)) if ulp else "" for bucket in buckets]
    return (
        largest_text(difference.max_absolute),
        largest_text(difference.max_relative),
        _share(difference.equal, difference.elements),
        *counts,
        str(ulp.maximum) if ulp else "",
    )


def largest_text(value: float | None) -> str:
    """A largest difference; JSON has no number for an infinite one."""
    return "infinite" if value is None else f"{value:.3g}"


def _share(part: int, whole: int) -> str:
    """`all`, or a percentage that is never rounded to 100%."""
    if part == whole:
        return "all"
    return f"{min(100 * part / whole, 99.9999):.4f}%"


def difference_records(
    found: Iterable[OutputDifference], definitions: Mapping[str, Definition]
) -> list[dict[str, Any]]:
    """A row for each output and kind of inputs, with numbers as they are; None is infinite."""
    return [_record(each, definitions.get(each.record.definition)) for each in found]


def differences_json(found: Iterable[OutputDifference], definitions: Mapping[str, Definition]) -> str:
    """The rows as JSON."""
    return json.dumps(difference_records(found, definitions), indent=2) + "\n"


def flat_differences(found: Iterable[OutputDifference], definitions: Mapping[str, Definition]) -> list[dict[str, Any]]:
    """The rows for a CSV: axes and scalars as text, a column for each bucket of distances."""
    rows = []
    for row in difference_records(found, definitions):
        ulp = row.pop("ulp") or {}
        counts = {f"ulp_{bucket}": number for bucket, number in ulp.get("histogram", {}).items()}
        texts = {"constants": assignments(row["constants"])}
        texts["inputs"] = ", ".join(f"{name}={dtype}" for name, dtype in row["inputs"].items())
        rows.append(
            {**flat_row(row), **texts, "ulp_maximum": ulp.get("maximum"), "ulp_mean": ulp.get("mean"), **counts}
        )
    return rows


def _record(each: OutputDifference, definition: Definition | None) -> dict[str, Any]:
    record = each.record
    outputs = definition.outputs if definition else {}
    return {
        "definition": record.definition,
        "hardware": record.hardware,
        "axes": record.axes,
        "constants": definition.const_axes if definition else {},
        "scalars": record.scalars,
        "inputs": {name: spec.dtype.value for name, spec in definition.inputs.items()} if definition else {},
        "solution": record.solution,
        "status": record.status,
        "against": each.peer.solution,
        "against_sha256": each.peer.solution_sha256,
        "output": each.output,
        "dtype": outputs[each.output].dtype.value if each.output in outputs else None,
        "judged_on": each.kind,
        **asdict(each.difference),
        "trace": record.place,
    }
