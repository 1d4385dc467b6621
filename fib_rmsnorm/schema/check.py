"""The verdict of a check: less than a Trace, which says PASSED only of what was timed."""

from __future__ import annotations

from pydantic import BaseModel

from fib_rmsnorm.schema.judged_case import CaseKind, list_cases
from fib_rmsnorm.schema.trace import Trace
from fib_rmsnorm.schema.upstream import Correctness, EvaluationStatus, Workload


class Check(BaseModel):
    """Whether a Solution is correct on a Workload, without a measurement of its speed."""

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
