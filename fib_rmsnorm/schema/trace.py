"""Trace, Evaluation and Check: what was evaluated where, and whether it was correct. The digests and ids of records.

All fields that flashinfer-bench's models lack are optional, and those ignore them, so Traces load in both directions.
"""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from fib_rmsnorm.schema import upstream
from fib_rmsnorm.schema.judged_case import CaseKind, list_cases
from fib_rmsnorm.schema.measurement import Performance, Settings
from fib_rmsnorm.schema.upstream import Correctness, EvaluationStatus, Workload

REFERENCE = "reference"
"""The `judged_by` of outputs that were compared with those of the Definition's reference alone."""


class Seal(BaseModel):
    """Who recorded an evaluation: a code over its Trace, by a key of one user on one machine."""

    key: str
    """The key's name, which does not tell the key."""
    code: str
    """HMAC-SHA256 (hex) over the Trace without its seal."""


class Evaluation(upstream.Evaluation, use_attribute_docstrings=False):
    """How a Solution did on a Workload. The status decides whether there are `correctness` and `performance`."""

    performance: Performance | None = None
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


class Check(BaseModel):
    """Whether a Solution is correct on a Workload, without a measurement of its speed.

    It says less than a Trace, which says PASSED only of what was timed.
    """

    definition: str
    workload: Workload
    solution: str
    status: EvaluationStatus
    """PASSED: correct on every case; no timed call was judged."""
    correctness: Correctness | None
    judged_by: str | None
    """The operator by which the outputs were judged, or REFERENCE; None if no output was."""
    log: str

    @classmethod
    def of(cls, trace: Trace) -> Check:
        """The verdict in a Trace. Raises ValueError for a Workload, which has none."""
        if trace.evaluation is None or trace.solution is None:
            raise ValueError("a Workload has no evaluation")
        found = trace.evaluation
        return cls(
            definition=trace.definition,
            workload=trace.workload,
            solution=trace.solution,
            status=found.status,
            correctness=found.correctness,
            judged_by=found.judged_by,
            log=found.log,
        )

    @property
    def passed(self) -> bool:
        """Whether the Solution is correct."""
        return self.status is EvaluationStatus.PASSED

    def count_cases(self, kind: CaseKind) -> int:
        """The number of cases of a kind that were judged."""
        return sum(case.kind == kind for case in list_cases(self.correctness))


def digest(model: BaseModel) -> str:
    """Return the SHA-256 (hex) of every field of `model` except its description.

    Upstream's `Solution.hash()` omits destination_passing_style and target hardware, so two different builds can
    share it. A new description does not make another kernel.
    """
    return hashlib.sha256(model.model_dump_json(exclude={"description"}).encode()).hexdigest()


def trace_id(trace: Trace) -> str:
    """Return the 8 hex digits that users name an evaluation by.

    They depend on what was evaluated, where and when, and not on the whole record, so a Trace keeps its id when the
    schema gains fields.
    """
    evaluation = trace.evaluation
    identity = [trace.definition, trace.solution or "", trace.workload.uuid]
    if evaluation is not None:
        identity += [evaluation.environment.hardware, evaluation.timestamp]
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:8]
