"""The table of tuned choices as text: rows that C++ includes between braces and Python parses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """One row: the parameters for batches of one shape, up to where the shape's next row begins."""

    shape: Mapping[str, int]
    min_batch: int
    parameters: Mapping[str, int]
    evidence: str = ""


@dataclass(frozen=True)
class Provenance:
    """The measurement that the choices come from."""

    devices: Mapping[str, str]
    """Device models, and the last day on which each was measured."""
    multiprocessors: int
    """The GPU's number of multiprocessors; 0 on a CPU."""
    timer: str
    combinations: int


def render_table(
    solution: str, columns: Sequence[str], choices: Sequence[Choice], provenance: Provenance | None = None
) -> str:
    """Render the file; without provenance it says that nothing was measured."""
    lines = [
        f"// How {solution} launches, by shape. Made by `fib-rmsnorm tune`: do not edit.",
        *_describe(provenance),
        f"// {_row(columns)}",
    ]
    for choice in choices:
        numbers = {
            **choice.shape,
            "multiprocessors": provenance.multiprocessors if provenance else 0,
            "min_batch": choice.min_batch,
            **choice.parameters,
        }
        lines += [f"// {choice.evidence}"] if choice.evidence else []
        lines += [f"{_row(numbers[column] for column in columns)},"]
    return "\n".join(lines) + "\n"


def _describe(provenance: Provenance | None) -> list[str]:
    if provenance is None:
        return ["// Nothing was measured."]
    where = " / ".join(f"{device}, {day}" for device, day in provenance.devices.items())
    best = "is the fastest" if len(provenance.devices) == 1 else "loses least on the device where it loses most"
    return [
        f"// {where}, timer {provenance.timer}, {provenance.combinations} combinations:",
        f"// each choice {best} at the batches named above it, or within 1% of it.",
    ]


def _row(values: Iterable[object]) -> str:
    return f"{{{', '.join(map(str, values))}}}"
