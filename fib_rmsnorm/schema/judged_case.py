"""What a Trace says of each case that a Solution was judged on, in `Correctness.extra`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from fib_rmsnorm.schema.upstream import Correctness

CaseKind = Literal["workload", "hard", "awkward", "timed"]
"""The Workload's own inputs, hard inputs of its size, inputs of an awkward size, or those of a timed call."""


@dataclass
class UlpStatistics:
    """Distances of an output's finite elements from the exact answer rounded to its dtype."""

    maximum: int
    mean: float
    histogram: dict[str, int]


@dataclass(frozen=True)
class Peer:
    """The Solution with whose outputs others were compared."""

    solution: str
    solution_sha256: str


@dataclass
class Difference:
    """How far an output is from that of a peer, on the same inputs. Neither counts as right.

    The largest differences are infinite where one value of a pair is not finite: in JSON, that is null.
    """

    max_absolute: float | None
    max_relative: float | None
    """The largest |a - b| / (|b| + 1e-8), where b is the peer's."""
    elements: int
    equal: int
    """Elements of equal value; zeros of both signs are equal, and so is a NaN to a NaN."""
    ulp: UlpStatistics | None
    """Distances from the peer's elements; None for a dtype without ULPs."""


class Tolerance(BaseModel):
    """What was tolerated of an output; None where JSON has no number for it."""

    rtol: float | None = None
    atol: float | None = None


class JudgedCase(BaseModel):
    """A case that a Solution was judged on."""

    case: str
    kind: CaseKind | None = None
    """None in Traces that are older than kinds."""
    max_absolute_error: float | None
    """Infinite where a value is not finite, and another is expected: in JSON, that is null."""
    mismatched: int
    ulp: dict[str, UlpStatistics | None] = {}
    """By output; None for a dtype without ULPs."""
    reference_ulp: dict[str, UlpStatistics | None] = {}
    """Distances of the reference's outputs, where the expected ones are more exact."""
    against: dict[str, Difference] = {}
    """By output: how it differs from the peer's, if a bench was asked to compare with one."""


AGAINST = "against"
"""The key of the Peer in `Correctness.extra`."""
_CASES = TypeAdapter(list[JudgedCase])


def list_cases(correctness: Correctness | None) -> list[JudgedCase]:
    """The cases of a verdict of this tool's; what other tools write there may raise ValidationError."""
    extra = correctness.extra if correctness else None
    return _CASES.validate_python((extra or {}).get("cases", []))
