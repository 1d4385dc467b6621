"""Judging from the scheduler's side: call the solution on every case, have the judge compare, sum it up."""

from __future__ import annotations

import threading
import time
from typing import Any

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.tensors.inputs import count_cases
from fib_rmsnorm.evaluation.worker.worker_messages import Called, Effects, Revealed
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, WorkerClient
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.channel import Message
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import Correctness, Definition, Workload


class ReferenceFailedError(FibRmsnormError):
    """The Definition's reference cannot be computed, so nothing can be judged by it."""


class JudgeClient:
    """One device's judge process, replaced if it dies. Several threads may ask it, which answers one by one."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self._fork_server = fork_server
        self._device = device
        self._config = config
        self._judge: Process | None = None
        self._lock = threading.Lock()

    def call(self, workload: Workload, case: int, worker: WorkerClient, budget: TimeBudget) -> Called:
        """Have the Solution called on a case, and its outputs handed over. Raises FailedError if that fails."""
        return worker.ask({"do": "call", **_describe(workload, case)}, Called, budget)

    def judge(
        self, definition: Definition, workload: Workload, worker: WorkerClient, first: Called, budget: TimeBudget
    ) -> Correctness:
        """Compare the outputs of the Solution's call on the first case, and call it on all others.

        Raises FailedError if a call fails or any output is wrong, ReferenceFailedError if there is nothing
        to compare with.
        """
        verdicts: list[Message] = []
        faults: list[str] = []
        for case in range(count_cases(definition, workload)):
            called = self.call(workload, case, worker, budget) if case else first
            verdict = self._compare(definition, worker, {**_describe(workload, case), "explain": not faults})
            verdicts.append(verdict)
            faults += _describe_faults(verdict, called, list(definition.outputs))
            if called.changed_outputs:
                break  # whatever still works on this call would disturb the next
        correctness = _sum_up(verdicts, list(definition.outputs))
        if faults:
            raise EvaluationFailedError("INCORRECT_NUMERICAL", "\n".join(faults), correctness)
        return correctness

    def judge_timed_call(
        self, definition: Definition, workload: Workload, worker: WorkerClient, budget: TimeBudget
    ) -> None:
        """Judge one of the timed calls since this was last asked. Raises FailedError if it was wrong."""
        revealed = worker.ask({"do": "reveal"}, Revealed, budget)
        request = {
            "workload": workload.model_dump(mode="json"),
            "number": revealed.number,
            "earlier": revealed.earlier,
            "explain": True,
        }
        verdict = self._compare(definition, worker, request)
        faults = _describe_faults(verdict, revealed, list(definition.outputs))
        if faults:
            raise EvaluationFailedError(
                "INCORRECT_NUMERICAL", "\n".join(faults), _sum_up([verdict], list(definition.outputs))
            )

    def _compare(self, definition: Definition, worker: WorkerClient, request: Message) -> Message:
        message = {
            "do": "compare",
            "definition": definition.model_dump(mode="json"),
            "device": self._device.name,
            "dataset": str(self._config.dataset) if self._config.dataset else None,
            "settings": self._config.settings.model_dump(),
            "handover": worker.process.outputs_path,
            **request,
        }
        with self._lock:
            answer = self._ask(message, definition.name)
        worker.process.clear_outputs()  # or a later call could pass by what an earlier one wrote
        if "missing" in answer:
            worker.process.kill()
            raise EvaluationFailedError("RUNTIME_ERROR", f"calling: {answer['missing']}")
        return answer

    def _ask(self, message: Message, name: str) -> Message:
        if self._judge is None or not self._judge.alive:
            self._judge = self._fork_server.spawn(JUDGE)
        try:
            answer = self._judge.request(message, time.monotonic() + self._config.timeout_s)
        except ProcessTimeoutError:
            raise ReferenceFailedError(f"the reference of {name} took over {self._config.timeout_s:g} s") from None
        except ProcessDiedError as error:
            raise ReferenceFailedError(f"the judge {error}: {self._judge.take_log()}") from None
        if not answer["ok"]:
            raise ReferenceFailedError(f"the reference of {name} failed: {answer['message']}")
        return answer


def _describe(workload: Workload, case: int) -> Message:
    return {"workload": workload.model_dump(mode="json"), "case": case}


def _describe_faults(verdict: Message, effects: Effects, names: list[str]) -> list[str]:
    wrong = f"{verdict['case']}: the call"
    faults = [f"{wrong} had returned when its output {name!r} still changed" for name in effects.changed_outputs]
    if verdict["hint"]:
        faults.append(f"{verdict['case']}: {verdict['hint']}")
    for name, output in zip(names, verdict["outputs"], strict=True):
        if output["mismatched"]:
            kinds = f" on: {', '.join(output['failing_kinds'])}" if output["failing_kinds"] else ""
            faults.append(
                f"{verdict['case']}: {name}: {output['mismatched']} of {output['elements']} elements wrong{kinds};"
                f" worst at {output['worst']} (rtol {output['rtol']:g}, atol {output['atol']:.2g})"
            )
    faults += [f"{wrong} changed its input {name!r}" for name in effects.changed_inputs]
    faults += [f"{wrong} wrote beyond its output {name!r}" for name in effects.overrun]
    return faults


def _sum_up(verdicts: list[Message], names: list[str]) -> Correctness:
    """Upstream's two errors are those on the Workload's own inputs; the hard cases are in `extra`."""
    own = verdicts[0]["outputs"]
    return Correctness(
        max_absolute_error=max((output["max_absolute_error"] for output in own), default=0.0),
        max_relative_error=max((output["max_relative_error"] for output in own), default=0.0),
        extra={
            "tolerance": {
                name: {"rtol": output["rtol"], "atol": output["atol"]} for name, output in zip(names, own, strict=True)
            },
            "cases": [_describe_case(verdict, names) for verdict in verdicts],
        },
    )


def _describe_case(verdict: Message, names: list[str]) -> dict[str, Any]:
    outputs = verdict["outputs"]
    return {
        "case": verdict["case"],
        "max_absolute_error": max((output["max_absolute_error"] for output in outputs), default=0.0),
        "mismatched": sum(output["mismatched"] for output in outputs),
        "ulp": {name: output["ulp"] for name, output in zip(names, outputs, strict=True)},
        **(
            {"reference_ulp": {name: output["reference_ulp"] for name, output in zip(names, outputs, strict=True)}}
            if any("reference_ulp" in output for output in outputs)
            else {}
        ),
    }
