"""The scheduler's client of a Definition's reference: code of other people, which runs in a worker, never in the judge.

The judge needs its outputs as the expected ones if no operator is recognised, and otherwise to say how exact it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation.judging.judge_messages import JudgedCall
from fib_rmsnorm.evaluation.worker.worker_messages import Call, CallAsTimed, Called, Outputs
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, WorkerClient
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import DeviceMemory
from fib_rmsnorm.sandbox.process import Process
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SourceFile, SupportedLanguages

_FILE = "reference.py"


class ReferenceFailedError(FibRmsnormError):
    """The Definition's reference failed, so nothing can be compared with it."""


@dataclass(frozen=True)
class Transferred:
    """The outputs that a worker transferred last: in a GPU's memory, or in the file of its process."""

    worker: WorkerClient
    memory: list[DeviceMemory] | None


class ReferenceClient:
    """Calls references for one judge. One thread at a time may use it."""

    def __init__(self, find_worker: Callable[[Definition], WorkerClient], timeout_s: float) -> None:
        self._find_worker = find_worker
        self._timeout_s = timeout_s
        self._current: tuple[str, str, Recognition | None, int] | None = None
        self._known: set[int] = set()
        """The cases whose outputs the judge has kept."""
        self._failure: ReferenceFailedError | None = None

    def call(self, request: JudgedCall, judge: Process) -> Transferred | None:
        """Call the reference if the judge needs its outputs to answer. Return where they are.

        Raises ReferenceFailedError if the call fails, at once if one on this Workload has failed before.
        """
        current = (request.definition.name, request.workload.uuid, request.recognition, judge.pid)
        if self._current != current:
            self._current, self._failure = current, None
            self._known.clear()
        if self._failure is not None:
            raise self._failure
        is_needed = request.case == 0 or request.recognition is None
        if not is_needed or request.case in self._known:
            return None
        try:
            worker = self._find_worker(request.definition)
            budget = TimeBudget(self._timeout_s)
            if request.case is None:
                again = CallAsTimed(workload=request.workload, numbers=request.numbers)
                return Transferred(worker, worker.ask(again, Outputs, budget).memory)
            call = Call(workload=request.workload, case=request.case, recognition=request.recognition)
            called = worker.ask(call, Called, budget)
        except EvaluationFailedError as failure:
            self._failure = ReferenceFailedError(f"the reference of {request.definition.name} failed: {failure}")
            raise self._failure from None
        self._known.add(request.case)
        return Transferred(worker, called.memory)

    def forget(self) -> None:
        """Forget what the judge has kept: it was asked about something else."""
        self._current = None


def reference_solution(definition: Definition) -> Solution:
    """The Definition's reference as a Solution, so that it is built, timed and limited like any other."""
    return Solution(
        name=f"{definition.name}.reference",
        definition=definition.name,
        author="reference",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point=f"{_FILE}::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path=_FILE, content=definition.reference)],
    )
