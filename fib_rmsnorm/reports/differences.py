"""Outputs of Solutions beside those of a peer, as tables: by Definition, device and peer."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from fib_rmsnorm.analysis.comparing.outputs import OutputDifference
from fib_rmsnorm.reports.text.document import Grid, Heading, Part
from fib_rmsnorm.reports.text.units import pick
from fib_rmsnorm.schema import Difference, UlpStatistics

_KINDS = {
    "workload": "its own",
    "hard": "hard",
    "awkward": "awkward size",
    "strided": "strided rows",
    "timed": "timed call",
}


def describe_differences(found: Sequence[OutputDifference]) -> Iterator[Part]:
    """A table for each device, Definition and peer. A Definition that is not known has no hidden size and dtypes."""
    for (hardware, name, peer), group in groupby(
        found, key=lambda each: (each.record.hardware, each.record.definition, each.peer.solution)
    ):
        mine = list(group)
        yield Heading(f"{name} on {hardware}: outputs against {peer}")
        yield _grid(mine)
        if definition := mine[0].definition:
            inputs = ", ".join(f"{name} ({spec.dtype.value})" for name, spec in definition.inputs.items())
            yield f"{name} takes {inputs}."
    yield (
        "Inputs: the Workload's own, hard ones, or an awkward size. Relative: over the peer's value. Equal: elements of"
        " the same value; the others by their distance in units in the last place (ULP). A difference is not an error:"
        " the verdict is in fib-rmsnorm show."
    )


def _grid(found: Sequence[OutputDifference]) -> Grid:
    definition = found[0].definition
    consts = definition.const_axes if definition else {}
    axes = list(dict.fromkeys(name for each in found for name in each.record.axes))
    buckets = list_buckets(each.difference.ulp for each in found if each.difference.ulp)[1:]
    sizes = [f">{name}" for name in (*axes, *consts)]
    rows = [
        (
            each.record.solution,
            *(str(each.record.axes.get(axis, "")) for axis in axes),
            *map(str, consts.values()),
            each.output,
            each.dtype or "",
            _KINDS[each.kind],
            *_difference_cells(each.difference, buckets),
        )
        for each in found
    ]
    return Grid(
        (
            "solution",
            *sizes,
            "output",
            "dtype",
            "inputs",
            ">largest",
            ">relative",
            ">equal",
            *(f">{bucket} ULP" for bucket in buckets),
            ">largest ULP",
        ),
        rows,
    )


def list_buckets(ulps: Iterable[UlpStatistics]) -> list[str]:
    """The buckets of distances, from 0 up to the last that any has."""
    counted = [each.histogram for each in ulps]
    names = list(dict.fromkeys(bucket for histogram in counted for bucket in histogram))
    while len(names) > 1 and not any(histogram.get(names[-1]) for histogram in counted):
        names.pop()
    return names


def _difference_cells(difference: Difference, buckets: Sequence[str]) -> tuple[str, ...]:
    """The cells of one difference; a share of equal elements is never rounded to 100%."""
    ulp, equal = difference.ulp, difference.equal
    return (
        largest_text(difference.max_absolute),
        largest_text(difference.max_relative),
        "all" if equal == difference.elements else f"{min(100 * equal / difference.elements, 99.9999):.4f}%",
        *(str(ulp.histogram.get(bucket, 0)) if ulp else "" for bucket in buckets),
        str(ulp.maximum) if ulp else "",
    )


def largest_text(value: float | None) -> str:
    """A largest difference; JSON has no number for an infinite one."""
    return "infinite" if value is None else f"{value:.3g}"


def difference_records(found: Iterable[OutputDifference]) -> list[dict[str, Any]]:
    """A row for each output and kind of inputs, with numbers as they are; None is infinite."""
    return [
        {
            **pick(each.record, "definition", "hardware", "axes"),
            "constants": known.const_axes if (known := each.definition) else {},
            "scalars": each.record.scalars,
            "inputs": {name: spec.dtype.value for name, spec in known.inputs.items()} if known else {},
            **pick(each.record, "solution", "status"),
            **pick(each.peer, against="solution", against_sha256="solution_sha256"),
            **pick(each, "output", "dtype", judged_on="kind"),
            **pick(each.difference, "max_absolute", "max_relative", "elements", "equal", "ulp"),
            "trace": each.record.place,
        }
        for each in found
    ]
