"""Trace, Evaluation and Check: an evaluation, where it ran, and its verdict. The digests and ids of records.

All fields that flashinfer-bench's models lack are optional, and those ignore them, so Traces load in both directions.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from fib_rmsnorm.schema import upstream
from fib_rmsnorm.schema.measurement import Performance, Settings
from fib_rmsnorm.schema.upstream import Correctness, EvaluationStatus, Workload

CaseKind = Literal["workload", "hard", "awkward", "strided", "timed"]
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
    """The distance of an output from a peer's, on the same inputs. Neither counts as correct.

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


@dataclass
class Recurrence:
    """How rows of a Workload's own inputs that recur in a batch of another size compare with before, bit for bit."""

    rows: int
    """The number of rows that recur."""
    different: int = 0
    """The number of these in which an output has other bits."""
    row: int | None = None
    """The first of them in the other batch."""
    before: int | None = None
    """The same one in the Workload's."""


class JudgedCase(BaseModel):
    """A case that a Solution was judged on, in `Correctness.extra`."""

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
    recurrence: Recurrence | None = None
    """None if no row of the Workload's own inputs is among the case's."""


AGAINST = "against"
"""The key of the Peer in `Correctness.extra`."""
_CASES = TypeAdapter(list[JudgedCase])


def list_cases(correctness: Correctness | None) -> list[JudgedCase]:
    """The cases of a verdict of this tool's; what other tools write there may raise ValidationError."""
    extra = correctness.extra if correctness else None
    return _CASES.validate_python((extra or {}).get("cases", []))


REFERENCE = "reference"
"""The `judged_by` of outputs that were compared with those of the Definition's reference alone."""


class Seal(BaseModel):
    """Identifies who recorded an evaluation: a code over its Trace, by a key of one user on one machine."""

    key: str
    """The key's name, which does not reveal the key."""
    code: str
    """HMAC-SHA256 (hex) over the Trace without its seal."""


class Evaluation(upstream.Evaluation, use_attribute_docstrings=False):
    """The result of a Solution on a Workload. The status decides whether there are `correctness` and `performance`."""

    performance: Performance | None = None
    is_cheat: bool | None = None
    """True if the Solution failed by doing what an honest one has no reason to do, such as replacing the timer."""
    settings: Settings | None = None
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    judged_by: str | None = None
    """The operator by whose exact answer and hard inputs the outputs were judged; REFERENCE if the Definition's
    reference alone judged them, on the Workload's inputs. None if there were no outputs to judge."""
    build_flags: list[str] | None = None
    """The flags with which the C++ compiler built the Solution; None for other languages."""
    parameters: dict[str, int] | None = None
    """The launch parameters of a tuned Solution, if `tune` measured it."""
    multiprocessors: int | None = None
    """The GPU's number of multiprocessors, if `tune` measured the Solution."""
    seal: Seal | None = None


class Trace(upstream.Trace, use_attribute_docstrings=False):
    """An evaluation of a Solution on a Workload; without these two, the record of a Workload."""

    evaluation: Evaluation | None = None

    @property
    def performance(self) -> Performance | None:
        """The timings, if anything was timed."""
        return self.evaluation.performance if self.evaluation else None

    @property
    def status(self) -> str:
        """`PASSED`, `TIMEOUT`; like the next two, empty for a Workload."""
        return self.evaluation.status.value if self.evaluation else ""

    @property
    def hardware(self) -> str:
        """The device's model."""
        return self.evaluation.environment.hardware if self.evaluation else ""

    @property
    def timestamp(self) -> str:
        """When it was evaluated."""
        return self.evaluation.timestamp if self.evaluation else ""


class Check(BaseModel):
    """Whether a Solution is correct on a Workload, without a measurement of its speed.

    It proves less than a Trace, which is PASSED only if the Solution was timed.
    """

    definition: str
    workload: Workload
    solution: str
    status: EvaluationStatus
    """PASSED: correct on every case; no timed call was judged."""
    correctness: Correctness | None
    judged_by: str | None
    """The operator by which the outputs were judged, or REFERENCE; None if no output was."""
    is_cheat: bool | None = None
    """As in an Evaluation."""
    log: str

    @classmethod
    def of(cls, trace: Trace) -> "Check":
        """The verdict in a Trace. Raises ValueError for a Workload, which has none."""
        if trace.evaluation is None or trace.solution is None:
            raise ValueError("a Workload has no evaluation")
        return cls(**{**dict(trace), **dict(trace.evaluation)})

    @property
    def passed(self) -> bool:
        """Whether the Solution is correct."""
        return self.status is EvaluationStatus.PASSED

    def count_cases(self, kind: CaseKind) -> int:
        """The number of cases of a kind that were judged."""
        return sum(case.kind == kind for case in list_cases(self.correctness))

    @property
    def batch_invariance(self) -> str | None:
        """`yes` if rows have the same bits in another batch, else the first that has not; None if none recurred."""
        for case in list_cases(self.correctness):
            if (found := case.recurrence) is not None:
                own = ", ".join(f"{axis}={size}" for axis, size in self.workload.axes.items())
                here = f"row {found.before} of {own} has other bits than row {found.row} of {case.case}"
                return f"no: {here}" if found.different else "yes"
        return None


def digest(model: BaseModel) -> str:
    """Return the SHA-256 (hex) of every field of `model` except its description.

    Upstream's `Solution.hash()` omits destination_passing_style and target hardware, so two different builds can
    share it. A new description does not make another kernel.
    """
    return hashlib.sha256(model.model_dump_json(exclude={"description"}).encode()).hexdigest()
