"""The scheduler's client of the judge: it has a solution called on every case and its outputs compared."""

from dataclasses import replace
from typing import Any

from fib_rmsnorm.evaluation.judging.comparer import Comparer, Subject, Transferred
from fib_rmsnorm.evaluation.judging.faults import allow_truncation, describe_faults, refusal_of, sum_up
from fib_rmsnorm.evaluation.judging.judge_messages import PossibleMistake, Verdict
from fib_rmsnorm.evaluation.judging.recogniser import Recogniser
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases, make_awkward_workload, make_few_rows
from fib_rmsnorm.evaluation.timing.timer import Trial
from fib_rmsnorm.evaluation.worker import worker_messages as messages
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.evaluation.worker_pool import WorkerPool
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.registry.selection import row_axis
from fib_rmsnorm.sandbox.asking import Done
from fib_rmsnorm.schema import REFERENCE, Correctness, Definition, EvaluationStatus, Peer, SafetensorsInput, Workload

_REPEATED_CALLS = 4
"""The second shows an answer that was kept by address; the others, one that is kept later."""

_EMPTY_LIMIT_S = 20.0
"""Seconds for a call without rows, for which some kernels are compiled again."""

_FAR_LIMIT_S = 60.0
"""Seconds for a call with more than 2^31 elements on a CPU, where a plain loop takes some 5 s."""

FAR_REMEDY = "compute the offsets of rows in 64 bits"
"""The remedy for a kernel that fails on rows beyond 2^31 elements."""


class JudgeClient:
    """Asks the judge process of one device. Threads may share it and take turns."""

    def __init__(self, workers: WorkerPool) -> None:
        self._comparer = Comparer(workers)
        self.recogniser = Recogniser(self._comparer)
        self._is_cpu = workers.device.kind == "cpu"

    def expect(self, definition: Definition, workload: Workload) -> None:
        """Have the judge start and compute what it will compare the first case with.

        Raises ReferenceFailedError if that cannot be computed.
        """
        self._comparer.expect(self._subject(definition, workload))

    def _subject(self, definition: Definition, workload: Workload) -> Subject:
        return Subject(definition, workload, self.recogniser.recognise(definition, workload))

    def judged_by(self, definition: Definition, workload: Workload) -> str:
        """The operator by which a Workload's outputs are judged; REFERENCE if it is the Definition's reference alone.

        Raises ReferenceFailedError if the reference does not answer.
        """
        recognition = self.recogniser.recognise(definition, workload)
        return recognition.operator if recognition else REFERENCE

    def call(self, workload: Workload, worker: WorkerClient) -> messages.Called:
        """Have a worker call its Solution on the first case. Raises EvaluationFailedError if the call fails."""
        return worker.ask(messages.Call(workload=workload, case=0, recognition=None), messages.Called)

    def judge(
        self, workload: Workload, worker: WorkerClient, first: messages.Called, keep_as: Peer | None = None
    ) -> Correctness:
        """Judge the outputs of the first case, which was called already; then call and judge all other cases.

        With `keep_as`, the judge keeps all outputs, and compares with them those of every Solution that it judges on
        this Workload from then on.

        Raises EvaluationFailedError if a call fails or an output is wrong, ReferenceFailedError if the expected outputs
        cannot be computed.
        """
        subject = self._subject(worker.definition, workload)
        verdicts: list[Verdict] = []
        faults: list[str] = []
        suspects: dict[str, list[PossibleMistake]] | None = None
        few = worker.is_interpreted
        cases = count_cases(subject.definition, subject.recognition, subject.workload, few_rows=few)
        # The first call shows what it changes for good, without the worker's death.
        guarded = self._is_cpu and not first.changed_inputs
        calls: list[tuple[int, dict[str, int]]] = [(case, {}) for case in range(cases)]
        if worker.strided:  # on the last case: of an awkward size, so three rows at least, where there is an operator
            calls.append((cases - 1, worker.strided))
        for case, strided in calls:
            if strided and faults:
                break
            request = messages.Call(
                workload=subject.workload,
                case=case,
                recognition=subject.recognition,
                few_rows=few,
                guarded=guarded,
                strided=strided,
            )
            called = worker.ask(request, messages.Called) if case or strided else first
            outputs = Transferred(worker, called.memory)
            is_few = few and case > 0
            asked = {"case": case, "few_rows": is_few, "suspects": suspects, "keep_as": keep_as, "strided": strided}
            verdicts += self._compare(subject, outputs, worker=worker.process.pid, **asked)
            if verdicts[-1].contradicted:
                self.recogniser.withdraw(worker.definition, workload)
                return self.judge(workload, worker, self.call(workload, worker), keep_as)
            faults += describe_faults(verdicts[-1], called)
            suspects = verdicts[-1].mistakes if faults else None
            if called.changed_outputs:
                break  # work that this call has left running would disturb the next
        if cases == 1 and not faults and guarded:
            again = messages.Call(workload=subject.workload, case=0, recognition=None, few_rows=few, guarded=True)
            worker.ask(again, messages.Called)
            worker.process.clear_outputs()
        if faults:
            raise refusal_of(faults, suspects or {}, verdicts)
        return sum_up(verdicts)

    def judge_far_rows(self, workload: Workload, worker: WorkerClient) -> str | None:
        """Have a worker call its Solution on rows that lie beyond 2^31 elements, and say how that fails.

        Empty if these rows are right; None if it was not tried, where the rows are not the first axis, or too slow on a
        CPU.
        """
        subject = self._subject(worker.definition, workload)
        if subject.recognition is None or not _has_rows_first(subject.definition, subject.recognition):
            return None
        if make_awkward_workload(subject.definition, subject.recognition, workload) is None:
            return None
        case = count_cases(subject.definition, subject.recognition, workload) - 1
        request = messages.CallFar(workload=workload, case=case, recognition=subject.recognition)
        hasty = replace(worker, limit_s=min(_FAR_LIMIT_S, worker.config.timeout_s)) if self._is_cpu else worker
        try:
            outputs = Transferred(worker, hasty.ask(request, messages.Outputs).memory)
        except EvaluationFailedError as failure:
            if self._is_cpu and failure.status is EvaluationStatus.TIMEOUT:
                return None
            wraps = "illegal memory access" in str(failure) or str(failure).endswith("died of SIGSEGV")
            return f"an illegal memory access: {FAR_REMEDY}" if wraps else f"{failure.status.value}: {failure}"
        (verdict,) = self._compare(subject, outputs, case=case)
        axis, specs = subject.recognition.row_axis, subject.definition.outputs
        judged = [each for name, each in verdict.outputs.items() if axis in (specs[name].shape or ())]
        wrong = [found for found in judged if found.is_wrong]
        return f"{wrong[0].mismatched} of {wrong[0].elements} elements wrong: {FAR_REMEDY}" if wrong else ""

    def judge_empty_batch(self, workload: Workload, worker: WorkerClient) -> str | None:
        """Have a worker call its Solution without any rows, and say how that fails.

        Empty if the call returns, with outputs of the right shapes; None if it was not tried: where no operator is
        recognised, or a worker has died.
        """
        subject, axis = self._subject(worker.definition, workload), row_axis(worker.definition)
        if subject.recognition is None or axis is None or not worker.process.alive:
            return None
        if any(isinstance(given, SafetensorsInput) for given in workload.inputs.values()):
            return None
        empty = workload.model_copy(update={"axes": {**workload.axes, axis: 0}})
        hasty = replace(worker, limit_s=min(_EMPTY_LIMIT_S, worker.config.timeout_s))
        try:
            hasty.ask(messages.Call(workload=empty, case=0, recognition=None), messages.Called)
        except EvaluationFailedError as failure:
            return f"{failure.status.value}: {str(failure).splitlines()[0]}"
        worker.process.clear_outputs()
        return ""

    def judge_timed_calls(self, workload: Workload, worker: WorkerClient, count: int) -> None:
        """Judge `count` of the calls timed since the last that were judged, or more.

        Raises EvaluationFailedError if one was wrong.
        """
        self._judge_revealed(workload, worker, worker.ask(messages.Reveal(), messages.Revealed), count)

    def judge_repeated_calls(self, workload: Workload, worker: WorkerClient) -> list[str] | None:
        """Have what is not timed called a few times as if it were, on few rows, and judge these calls.

        Their inputs, which nobody can foresee, lie at the same addresses. Returns the operators of libraries that one
        more call ran. Raises EvaluationFailedError if one is wrong.
        """
        recognition = self.recogniser.recognise(worker.definition, workload)
        few = make_few_rows(worker.definition, recognition, workload)
        prepare = messages.PrepareTiming(
            workload=few, warmup_runs=1, budget_s=worker.left_s, judged_calls=_REPEATED_CALLS
        )
        prepared = worker.ask(prepare, messages.TimingPrepared)
        worker.ask(messages.Time(trial=Trial(_REPEATED_CALLS, cold=False, budget_s=worker.left_s)), messages.Timed)
        self._judge_revealed(
            workload, worker, worker.ask(messages.Reveal(), messages.Revealed), _REPEATED_CALLS, few_rows=True
        )
        worker.ask(messages.EndTiming(), Done)
        return prepared.operators

    def judge_chained_call(self, workload: Workload, worker: WorkerClient) -> None:
        """Judge one of the calls of the last trial in a CUDA graph, as `judge_timed_calls` does."""
        revealed = worker.ask(messages.RevealChain(), messages.Revealed)
        try:
            self._judge_revealed(workload, worker, revealed, 1)
        except EvaluationFailedError as failure:
            why = f"in a CUDA graph: {failure}"
            raise EvaluationFailedError(failure.status, why, failure.correctness, is_cheat=failure.is_cheat) from None

    def _judge_revealed(
        self,
        workload: Workload,
        worker: WorkerClient,
        revealed: messages.Revealed,
        count: int,
        *,
        few_rows: bool = False,
    ) -> None:
        if (found := len({*revealed.numbers})) < count:
            worker.process.kill()
            why = f"judging timed calls: {found} were revealed, not {count}"
            raise EvaluationFailedError("RUNTIME_ERROR", why, is_cheat=True)
        subject, outputs = self._subject(worker.definition, workload), Transferred(worker, revealed.memory)
        for verdict in self._compare(subject, outputs, numbers=revealed.numbers, few_rows=few_rows):
            if faults := describe_faults(verdict, revealed):
                raise refusal_of(faults, verdict.mistakes, [verdict])

    def _compare(self, subject: Subject, outputs: Transferred, **which: Any) -> list[Verdict]:
        process = outputs.worker.process
        try:
            verdicts = self._comparer.compare(subject, outputs, **which)
        except EvaluationFailedError:
            process.kill()
            raise
        process.clear_outputs()  # otherwise a later call could pass with the outputs of this one
        for verdict in verdicts:
            if verdict.missing is not None:
                process.kill()
                raise EvaluationFailedError("RUNTIME_ERROR", f"calling: {verdict.missing}")
            if outputs.worker.is_interpreted:
                allow_truncation(verdict, subject.definition)
        return verdicts


def _has_rows_first(definition: Definition, recognition: Recognition) -> bool:
    """Whether the axis of rows is the first of an input, and of all inputs and outputs that have it."""
    inputs, outputs = (
        [spec.shape or [""] for spec in some.values()] for some in (definition.inputs, definition.outputs)
    )
    axis = recognition.row_axis
    return any(axis == shape[0] for shape in inputs) and all(axis not in shape[1:] for shape in (*inputs, *outputs))
