"""What a Trace says of each case that a Solution was judged on, in `Correctness.extra`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from fib_rmsnorm.schema.trace import Correctness

CaseKind = Literal["workload", "hard", "awkward", "timed"]
"""The Workload's own inputs, hard inputs of its size, inputs of an awkward size, or those of a timed call."""


@dataclass
class UlpStatistics:
    """Distances of an output's finite elements from the exact answer rounded to its dtype."""

    maximum: int
    mean: float
    histogram: dict[str, int]


class Tolerance(BaseModel):
    """What was tolerated of an output; None where JSON has no number for it."""

    rtol: float | None = None
    atol: float | None = None


class JudgedCase(BaseModel):
    """A case that a Solution was judged on."""

    case: str
    kind: CaseKind | None = None
    """None in Traces that are older than kinds."""
    max_absolute_error: float
    mismatched: int
    ulp: dict[str, UlpStatistics | None] = {}
    """By output; None for a dtype without ULPs."""
    reference_ulp: dict[str, UlpStatistics | None] = {}
    """Distances of the reference's outputs, where the expected ones are more exact."""


_CASES = TypeAdapter(list[JudgedCase])


def list_cases(correctness: Correctness | None) -> list[JudgedCase]:
    """The cases of a verdict of this tool's; what other tools write there may raise ValidationError."""
    extra = correctness.extra if correctness else None
    return _CASES.validate_python((extra or {}).get("cases", []))
