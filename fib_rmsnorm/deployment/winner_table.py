"""The table of winners of a registry whose Solutions serve models.

For each operator, device model and shape the table has the Solution that serves, and the Trace that says so.
`fib-rmsnorm deploy` makes it from Traces and writes it to the registry's root, as winners.json.
"""

import math
from pathlib import Path
from typing import Annotated

import msgspec

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import read_text


class Shape(msgspec.Struct, frozen=True):
    """The rows of a norm."""

    rows: int
    hidden: int
    dtype: str
    """The dtype of x: `float16`."""
    weight_dtype: str | None
    """The dtype of the weight; None if there is none."""

    def distance(self, other: "Shape") -> tuple[bool, bool, float, float]:
        """How unlike another shape is: in dtype first, then in hidden, then in rows."""
        return (
            self.dtype != other.dtype,
            self.weight_dtype != other.weight_dtype,
            abs(math.log(max(self.hidden, 1) / max(other.hidden, 1))),
            abs(math.log(max(self.rows, 1) / max(other.rows, 1))),
        )

    def __str__(self) -> str:
        """`8 rows of 4096 in float16`, and the weight's dtype if it is another."""
        weight = "" if self.weight_dtype in (None, self.dtype) else f" with a weight in {self.weight_dtype}"
        return f"{self.rows} row{'s' * (self.rows != 1)} of {self.hidden} in {self.dtype}{weight}"


class Candidate(msgspec.Struct, frozen=True):
    """A Solution that was measured on a shape."""

    solution: str
    latency_us: float
    trace: str
    """`file:line` in the registry."""


class MeasuredShape(msgspec.Struct, frozen=True):
    """The measurements on a shape, the Solution that serves it first."""

    shape: Shape
    candidates: Annotated[tuple[Candidate, ...], msgspec.Meta(min_length=1)]


class OperatorWinners(msgspec.Struct, frozen=True):
    """The Solutions of an operator."""

    unmeasured: dict[str, tuple[str, ...]]
    """The Solutions that serve `cpu` or `cuda` where nothing was measured, in the order in which to try them."""
    measured: dict[str, tuple[MeasuredShape, ...]]
    """By the name of a device."""


class WinnerTable(msgspec.Struct, frozen=True):
    """All operators by name."""

    operators: dict[str, OperatorWinners]

    def find(
        self, operator: str, device_kind: str, device: str, shape: Shape
    ) -> tuple[MeasuredShape | None, tuple[str, ...]]:
        """The Solutions for a shape, best first: those of the nearest measured shape, then those never measured.

        With the measured shape that they were taken from; None if nothing was measured on the device.
        """
        winners = self.operators.get(operator)
        if winners is None:
            return None, ()
        near = min(winners.measured.get(device, ()), key=lambda each: shape.distance(each.shape), default=None)
        measured = [each.solution for each in near.candidates] if near else []
        return near, tuple(dict.fromkeys([*measured, *winners.unmeasured.get(device_kind, ())]))

    def list_first(self, device_kind: str, device: str) -> list[str]:
        """The Solutions that come first on a measured shape, or where nothing was measured."""
        found: list[str] = []
        for winners in self.operators.values():
            measured = [each.candidates[0].solution for each in winners.measured.get(device, ())]
            found += measured or winners.unmeasured.get(device_kind, ())[:1]
        return list(dict.fromkeys(found))


def read_table(path: Path) -> WinnerTable:
    """Read a table. Raises InputError if the file is missing or damaged."""
    if not path.exists():
        raise InputError(f"no such file: {path}; make it with: fib-rmsnorm deploy")
    try:
        return msgspec.json.decode(read_text(path), type=WinnerTable)
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: is not a table of winners: {error}; make it with: fib-rmsnorm deploy") from None


def format_table(table: WinnerTable) -> str:
    """The table as the text of a JSON file."""
    return msgspec.json.format(msgspec.json.encode(table), indent=1).decode() + "\n"
