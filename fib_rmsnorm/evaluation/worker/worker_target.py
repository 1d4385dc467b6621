"""What a worker calls its solution for, and the inputs of a call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.evaluation.tensors.inputs import Case, make_case
from fib_rmsnorm.evaluation.timing import Timer
from fib_rmsnorm.evaluation.worker.worker_messages import Call
from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class WorkerTarget:
    """The Definition and device for which a process calls its solution. They never change."""

    definition: Definition
    dataset: Path | None
    device: str
    timer: Timer
    is_python: bool

    def make_case(self, request: Call) -> Case:
        """Make the inputs of a case."""
        return make_case(
            self.definition,
            request.recognition,
            request.workload,
            request.case,
            self.device,
            self.dataset,
            few_rows=request.few_rows,
        )
