"""The scheduler's client of the judge: it has a solution called on every case and its outputs compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, Verdict
from fib_rmsnorm.evaluation.judging.reference_client import ReferenceClient, ReferenceFailedError
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.tensors.inputs import count_cases
from fib_rmsnorm.evaluation.worker.worker_messages import Call, Called, Effects, Reveal, Revealed
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, WorkerClient
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.asking import InvalidAnswerError, RefusedError, ask
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import Correctness, Definition, Workload


class JudgeClient:
    """Asks the judge process of one device, and replaces it if it dies. Threads may share it and take turns."""

    def __init__(
        self,
        fork_server: ForkServer,
        device: Device,
        config: RunConfig,
        find_reference: Callable[[Definition], WorkerClient],
    ) -> None:
        """`find_reference` returns the worker that holds a Definition's reference."""
        self._fork_server = fork_server
        self._reference = ReferenceClient(find_reference, config.timeout_s)
        self._device = device
        self._config = config
        self._judge: Process | None = None
        self._lock = threading.Lock()

    def call(self, workload: Workload, case: int, worker: WorkerClient, budget: TimeBudget) -> Called:
        """Have a worker call its Solution on a case. Raises EvaluationFailedError if the call fails."""
        return worker.ask(Call(workload=workload, case=case), Called, budget)

    def judge(
        self, definition: Definition, workload: Workload, worker: WorkerClient, first: Called, budget: TimeBudget
    ) -> Correctness:
        """Judge the outputs of the first case, which was called already; then call and judge all other cases.

        Raises EvaluationFailedError if a call fails or an output is wrong, ReferenceFailedError if the expected outputs
        cannot be computed.
        """
        verdicts: list[Verdict] = []
        faults: list[str] = []
        for case in range(count_cases(definition, workload)):
            called = self.call(workload, case, worker, budget) if case else first
            request = self._make_request(definition, workload, worker, case=case, explain=not faults)
            verdicts.append(self._compare(request, worker))
            faults += _describe_faults(verdicts[-1], called, list(definition.outputs))
            if called.changed_outputs:
                break  # work that this call has left running would disturb the next
        correctness = _sum_up(verdicts, list(definition.outputs))
        if faults:
            raise EvaluationFailedError("INCORRECT_NUMERICAL", "\n".join(faults), correctness)
        return correctness

    def judge_timed_call(
        self, definition: Definition, workload: Workload, worker: WorkerClient, budget: TimeBudget
    ) -> None:
        """Judge one of the calls timed since the last one judged. Raises EvaluationFailedError if it was wrong."""
        revealed = worker.ask(Reveal(), Revealed, budget)
        request = self._make_request(
            definition, workload, worker, number=revealed.number, earlier=revealed.earlier, explain=True
        )
        verdict = self._compare(request, worker)
        names = list(definition.outputs)
        if faults := _describe_faults(verdict, revealed, names):
            raise EvaluationFailedError("INCORRECT_NUMERICAL", "\n".join(faults), _sum_up([verdict], names))

    def _make_request(self, definition: Definition, workload: Workload, worker: WorkerClient, **which: Any) -> Compare:
        return Compare(
            definition=definition,
            workload=workload,
            device=self._device.name,
            dataset=self._config.dataset,
            settings=self._config.settings,
            outputs_path=worker.process.outputs_path,
            **which,
        )

    def _compare(self, request: Compare, worker: WorkerClient) -> Verdict:
        with self._lock:
            verdict = self._ask(request)
        worker.process.clear_outputs()  # otherwise a later call could pass with the outputs of this one
        if verdict.missing is not None:
            worker.process.kill()
            raise EvaluationFailedError("RUNTIME_ERROR", f"calling: {verdict.missing}")
        return verdict

    def _ask(self, request: Compare) -> Verdict:
        if self._judge is None or not self._judge.alive:
            self._judge = self._fork_server.spawn(JUDGE)
        reference = self._reference.call(request, self._judge)
        if reference is not None:
            request = request.model_copy(update={"expected_path": reference.outputs_path})
        try:
            return ask(self._judge, request, Verdict, time.monotonic() + self._config.timeout_s)
        except ProcessTimeoutError:
            raise ReferenceFailedError(f"the judge timed out after {self._config.timeout_s:g} s") from None
        except (ProcessDiedError, InvalidAnswerError) as error:
            raise ReferenceFailedError(f"the judge {error}: {self._judge.take_log()}") from None
        except RefusedError as refused:
            raise ReferenceFailedError(f"the judge failed: {refused}") from None
        finally:
            if reference is not None:
                reference.clear_outputs()


def _describe_faults(verdict: Verdict, effects: Effects, names: list[str]) -> list[str]:
    call = f"{verdict.case}: the call"
    faults = [f"{call} changed its output {name!r} after it had returned" for name in effects.changed_outputs]
    if verdict.hint:
        faults.append(f"{verdict.case}: {verdict.hint}")
    for name, output in zip(names, verdict.outputs, strict=True):
        found = output.comparison
        if found.mismatched:
            kinds = f" on: {', '.join(found.failing_kinds)}" if found.failing_kinds else ""
            faults.append(
                f"{verdict.case}: {name}: {found.mismatched} of {found.elements} elements wrong{kinds};"
                f" worst at {found.worst} (rtol {found.rtol:g}, atol {found.atol:.2g})"
            )
    faults += [f"{call} changed its input {name!r}" for name in effects.changed_inputs]
    faults += [f"{call} wrote beyond its output {name!r}" for name in effects.overrun]
    return faults


def _sum_up(verdicts: list[Verdict], names: list[str]) -> Correctness:
    """Sum up the errors: upstream's two fields for the Workload's own inputs, and `extra` for every case."""
    own = [output.comparison for output in verdicts[0].outputs]
    return Correctness(
        max_absolute_error=max((found.max_absolute_error for found in own), default=0.0),
        max_relative_error=max((found.max_relative_error for found in own), default=0.0),
        extra={
            "tolerance": {
                name: {"rtol": found.rtol, "atol": found.atol} for name, found in zip(names, own, strict=True)
            },
            "cases": [_describe_case(verdict, names) for verdict in verdicts],
        },
    )


def _describe_case(verdict: Verdict, names: list[str]) -> dict[str, Any]:
    outputs = dict(zip(names, verdict.outputs, strict=True))
    described = {
        "case": verdict.case,
        "max_absolute_error": max((o.comparison.max_absolute_error for o in verdict.outputs), default=0.0),
        "mismatched": sum(output.comparison.mismatched for output in verdict.outputs),
        "ulp": {name: asdict(output.ulp) if output.ulp else None for name, output in outputs.items()},
    }
    reference = {name: asdict(output.reference_ulp) for name, output in outputs.items() if output.reference_ulp}
    return {**described, **({"reference_ulp": reference} if reference else {})}
