"""The connection to the judge process of one device: it compares the outputs that a worker transferred."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.judging import judge_messages as messages
from fib_rmsnorm.evaluation.worker.worker_messages import Call, CallAsTimed, Called, Outputs, WriteOutputs
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.evaluation.worker_pool import WorkerPool
from fib_rmsnorm.machine.devices import ONE_CONNECTION
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import Answer, DeviceMemory, Done, Request, ask, require_device
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.process import NoAnswerError, Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import Definition, DType, Settings, Workload

_IN_FLOAT64 = """
from fib_rmsnorm.evaluation.worker.float64_reference import in_float64
run = in_float64(run, {outputs})
"""
"""The end of a reference's source by which it computes in float64."""
_ROUNDING = (DType.FLOAT16, DType.BFLOAT16)


class ReferenceFailedError(FibRmsnormError):
    """The Definition's reference failed, so nothing can be compared with it."""


@dataclass(frozen=True)
class Transferred:
    """The outputs that a worker transferred last: in a GPU's memory, or in the file of its process."""

    worker: WorkerClient
    memory: list[DeviceMemory] | None
    are_of_reference: bool = False
    """Whether they are those of the reference itself, which need not be called to judge them."""


_ATTEMPTS = 2


@dataclass(frozen=True)
class Subject:
    """The standard by which outputs are judged: the exact answer of a recognised operator, else the reference."""

    definition: Definition
    workload: Workload
    recognition: Recognition | None


class _NotCopiedError(Exception):
    """The judge could not copy outputs from the GPU's memory, and has ended."""

    def __init__(self, outputs: Transferred, reason: str) -> None:
        super().__init__(reason)
        self.outputs = outputs


class Comparer:
    """Asks the judge process, and replaces it if it dies. Threads may share it and take turns.

    It calls references, code of other people, in workers. The judge needs their outputs as the expected ones if no
    operator is recognised, else to say how exact they are.
    """

    def __init__(self, workers: WorkerPool) -> None:
        """`workers` hold the references."""
        self.workers = workers
        self._current: tuple[str, str, Recognition | None, int] | None = None
        """The Definition, Workload and operator that a judge was asked about last, and its process."""
        self._known: set[int] = set()
        """The cases of these whose reference's outputs the judge has kept."""
        self._knows_rounding = False
        """Whether the judge was told how much the reference rounds, or nobody can tell."""
        self._failure: ReferenceFailedError | None = None
        """The failure of the reference on this Workload, which is not called again."""
        self._device = workers.device
        self._config = workers.config
        self._judge: Process | None = None
        self._opens_memory: bool | None = None
        """Whether processes can open one another's memory on the device; None until it was tried."""
        self._lock = threading.Lock()

    def expect(self, subject: Subject) -> None:
        """Have the judge compute the expected outputs of the first case, before it is asked to compare with them.

        Raises ReferenceFailedError if they cannot be computed.
        """
        with self._lock:
            self._ask_until_copied(messages.Expect(**self._describe(subject), case=0))

    def compare(self, subject: Subject, outputs: Transferred, **which: Any) -> list[messages.Verdict]:
        """Compare the outputs that a worker transferred last; `which` says of which calls they are.

        The settings are the run's, unless given.
        Raises EvaluationFailedError if the outputs cannot be copied, and ReferenceFailedError if the expected ones
        cannot be computed.
        """
        request = messages.Compare(**self._describe(subject), **{"settings": self._config.settings, **which})
        with self._lock:
            return self._ask_until_copied(request, outputs)

    def _ask_until_copied(self, request: messages.Expect, outputs: Transferred | None = None) -> list[messages.Verdict]:
        """Ask a judge that could copy all outputs.

        A judge that could not has ended. The outputs are to blame only if another cannot either, since what an earlier
        worker offered may have spoiled the first; or the device, if nothing was ever copied there.
        """
        failure = None
        for _ in range(_ATTEMPTS):
            try:
                return self._ask_once(request, outputs)
            except _NotCopiedError as error:  # noqa: PERF203 - twice at most
                failure = error
        if self._opens_memory is None:
            self._opens_memory = False
            return self._ask_once(request, outputs)
        if outputs is None or failure is None or failure.outputs is not outputs:
            raise ReferenceFailedError(f"the judge could not copy the outputs of the reference: {failure}")
        raise EvaluationFailedError("RUNTIME_ERROR", f"calling: the judge could not copy the outputs: {failure}")

    def _ask_once(self, request: messages.Expect, outputs: Transferred | None) -> list[messages.Verdict]:
        judge = self._require_judge()
        current = (request.definition.name, request.workload.uuid, request.recognition, judge.pid)
        if self._current != current:
            self._current, self._failure, self._knows_rounding = current, None, False
            self._known.clear()
        if request.recognition is None and not self._knows_rounding:
            self._knows_rounding = True
            self._measure_rounding(request)
        reference = None if outputs and outputs.are_of_reference else self._call_reference(request)
        files: list[int] = []
        try:
            if reference is not None:
                try:
                    request.expected_file = self._hand_over(judge, reference, files, are_expected=True)
                except EvaluationFailedError as failure:
                    raise ReferenceFailedError(f"the outputs of the reference are missing: {failure}") from None
            if outputs is not None and isinstance(request, messages.Compare):
                request.outputs_file = self._hand_over(judge, outputs, files, are_expected=False)
            return self._ask(judge, request, messages.Verdicts, files).verdicts
        finally:
            if reference is not None:
                reference.worker.process.clear_outputs()

    def _measure_rounding(self, request: messages.Expect) -> None:
        """Have the judge compare the reference's outputs with those in float64, if a tensor has 16 bits."""
        definition = request.definition
        specs = {**definition.inputs, **definition.outputs}
        if not any(spec.dtype in _ROUNDING for spec in specs.values()):
            return
        outputs = {name: spec.dtype.value for name, spec in definition.outputs.items()}
        source = definition.reference + _IN_FLOAT64.format(outputs=outputs)
        try:
            worker = self.workers.find_reference(definition.model_copy(update={"reference": source}))
            called = worker.ask(Call(workload=request.workload, case=0, recognition=None), Called)
        except EvaluationFailedError:
            return  # not all that a reference may do can be done in float64
        subject = Subject(definition, request.workload, None)
        measure = messages.MeasureRounding(**self._describe(subject), case=0, settings=Settings())
        self._ask_once(measure, Transferred(worker, called.memory))
        worker.process.clear_outputs()

    def _call_reference(self, request: messages.Expect) -> Transferred | None:
        """Call the reference if the judge needs its outputs to answer. Return where they are."""
        if self._failure is not None:
            raise self._failure
        if (request.case != 0 and request.recognition is not None) or request.case in self._known:
            return None
        try:
            worker = self.workers.find_reference(request.definition)
            worker.limit_s = worker.left_s = self._config.limit_for(request.definition, request.workload, self._device)
            if request.case is None:
                again = CallAsTimed(workload=request.workload, numbers=request.numbers)
                return Transferred(worker, worker.ask(again, Outputs).memory)
            call = Call(workload=request.workload, case=request.case, recognition=request.recognition)
            called = worker.ask(call, Called)
        except EvaluationFailedError as failure:
            self._failure = ReferenceFailedError(f"the reference of {request.definition.name} failed: {failure}")
            raise self._failure from None
        self._known.add(request.case)
        return Transferred(worker, called.memory)

    def _hand_over(self, judge: Process, outputs: Transferred, files: list[int], *, are_expected: bool) -> int | None:
        """Have the judge copy outputs from the GPU's memory. If they are in a file, add it and return its number."""
        memory = None if self._device.kind == "cpu" else outputs.memory
        if memory is not None and self._opens_memory is False:
            outputs.worker.ask(WriteOutputs(), Done)
            memory = None
        if memory is None:
            try:
                files.append(outputs.worker.process.outputs_file)
            except ProcessDiedError as error:
                raise EvaluationFailedError("RUNTIME_ERROR", f"calling: the process {error}") from None
            return len(files) - 1
        request = messages.TakeOutputs(device=self._device.name, memory=memory, are_expected=are_expected)
        try:
            ask(judge, request, Done, time.monotonic() + self._config.timeout_s)
        except (NoAnswerError, RefusalError) as error:
            raise _NotCopiedError(outputs, str(error)) from None
        self._opens_memory = True
        return None

    def _describe(self, subject: Subject) -> dict[str, Any]:
        """The fields that all requests on a Subject have."""
        return {**vars(subject), "device": self._device.name, "dataset": self._config.dataset}

    def _require_judge(self) -> Process:
        if self._judge is not None and self._judge.alive:
            return self._judge
        # It reads what others wrote: outputs, and tensors of Workloads.
        dataset = [self._config.dataset] if self._config.dataset else []
        self._judge = judge = self.workers.fork_server.spawn(JUDGE, environment=ONE_CONNECTION, readable=dataset)
        require_device(judge, self._device, partial(self._ask, judge))
        return judge

    def _ask(self, judge: Process, request: Request, kind: type[Answer], files: Sequence[int] = ()) -> Answer:
        limit_s = self._config.timeout_s
        if isinstance(request, messages.Expect):
            limit_s = self._config.limit_for(request.definition, request.workload, self._device)
        try:
            return ask(judge, request, kind, time.monotonic() + limit_s, files=files)
        except ProcessTimeoutError as error:
            raise ReferenceFailedError(
                f"the judge {error}: the machine is too slow or too busy for the Workload"
            ) from None
        except NoAnswerError as error:
            raise ReferenceFailedError(f"the judge {error}: {judge.take_log()}") from None
        except RefusalError as refused:
            raise ReferenceFailedError(f"the judge failed: {refused}") from None
