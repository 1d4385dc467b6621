"""A lane: one device, its judge and its workers; one evaluation at a time."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation.building.cache import cache_folder
from fib_rmsnorm.evaluation.capabilities import capability
from fib_rmsnorm.evaluation.channel import Message
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.environment import record_environment
from fib_rmsnorm.evaluation.inputs import count_cases
from fib_rmsnorm.evaluation.process import (
    Process,
    ProcessDiedError,
    ProcessGreedyError,
    ProcessTimeoutError,
    Zygote,
)
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import (
    BuildSpec,
    Correctness,
    Definition,
    Evaluation,
    EvaluationStatus,
    Performance,
    Settings,
    Solution,
    SourceFile,
    SupportedLanguages,
    Trace,
    Workload,
    digest,
)

_REFERENCE_FILE = "reference.py"
# Each worker holds memory (on a GPU also a context); beyond this many the longest idle one goes.
_MOST_WORKERS = 24
_MEMORY_SHARE = 0.75


class ReferenceFailedError(FibRmsnormError):
    """The Definition's reference cannot be computed, so nothing can be judged by it."""


class FailedError(Exception):
    """An evaluation ended with a status other than PASSED."""

    def __init__(self, status: str, message: str, correctness: Correctness | None = None) -> None:
        super().__init__(message)
        self.status = EvaluationStatus(status)
        self.correctness = correctness


@dataclass
class _Worker:
    process: Process
    build_s: float


class Lane:
    """Evaluates Solutions on one device."""

    def __init__(
        self,
        zygote: Zygote,
        device: Device,
        settings: Settings,
        timeout_s: float,
        dataset: Path | None = None,
    ) -> None:
        self.device = device
        self._zygote = zygote
        self._settings = settings
        self._timeout_s = timeout_s
        self._dataset = dataset
        self._handover = os.memfd_create("fib-rmsnorm-outputs")
        self._memory_limit = int(psutil.virtual_memory().total * _MEMORY_SHARE)
        self._judge: Process | None = None
        self._workers: OrderedDict[str, _Worker] = OrderedDict()
        self._unbuildable: dict[str, FailedError] = {}
        self._reference_ms: dict[tuple[str, str], float] = {}

    def prepare(self, solutions: list[tuple[Definition, Solution]]) -> None:
        """Build solutions side by side, ahead of their evaluation; failures show when they are evaluated."""
        jobs = solutions[:_MOST_WORKERS]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for future in [pool.submit(self._try_to_build, *job) for job in jobs]:
                future.result()

    def _try_to_build(self, definition: Definition, solution: Solution) -> None:
        try:
            self._worker(definition, solution)
        except FailedError:
            return

    def evaluate(self, definition: Definition, workload: Workload, solution: Solution) -> Trace:
        """Judge and time one Solution on one Workload. A failure is a Trace too."""
        correctness: Correctness | None = None
        performance: Performance | None = None
        log = ""
        try:
            reference_ms = self._time_reference(definition, workload)
            worker = self._worker(definition, solution)
            deadline = time.monotonic() + self._timeout_s
            try:
                correctness = self._judge_solution(definition, workload, worker, deadline)
                answer = self._ask_to_time(workload, worker.process, deadline)
            finally:
                log = worker.process.take_log()
            status = EvaluationStatus.PASSED
            performance = self._make_performance(definition, workload, solution, worker, answer, reference_ms)
        except FailedError as failure:
            status, correctness = failure.status, failure.correctness
            log = "\n".join(part for part in (str(failure), log.strip()) if part)
        return Trace(
            definition=definition.name,
            workload=workload,
            solution=solution.name,
            evaluation=Evaluation(
                status=status,
                environment=record_environment(self.device),
                timestamp=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                log=log,
                correctness=correctness,
                performance=performance,
                settings=self._settings,
                definition_sha256=digest(definition),
                solution_sha256=digest(solution),
            ),
        )

    def _worker(self, definition: Definition, solution: Solution) -> _Worker:
        """The worker that holds the built solution. Raises FailedError if it does not build."""
        key = digest(solution)
        if key in self._unbuildable:
            raise self._unbuildable[key]
        found = self._workers.get(key)
        if found is not None and found.process.alive:
            self._workers.move_to_end(key)
            return found
        interpreted = capability(solution.spec.language.value, self.device).ability == "interpret"
        process = self._zygote.spawn("worker", self._handover, {"TRITON_INTERPRET": "1"} if interpreted else {})
        request = {
            "do": "build",
            "definition": definition.model_dump(mode="json"),
            "solution": solution.model_dump(mode="json"),
            "device": self.device.name,
            "dataset": str(self._dataset) if self._dataset else None,
            "cache": str(cache_folder()),
        }
        try:
            answer = self._ask(process, request, time.monotonic() + self._timeout_s, "building")
        except FailedError as failure:
            log = process.take_log().strip()
            process.kill()
            self._unbuildable[key] = FailedError(failure.status, "\n".join(filter(None, [str(failure), log])))
            raise self._unbuildable[key] from None
        self._workers[key] = _Worker(process, answer["build_s"])
        while len(self._workers) > _MOST_WORKERS:
            self._workers.popitem(last=False)[1].process.kill()
        return self._workers[key]

    def _ask(self, process: Process, request: Message, deadline: float, doing: str) -> Message:
        """Ask a worker. Raises FailedError with the status that the way it failed has."""
        try:
            answer = process.request(request, deadline, self._memory_limit)
        except ProcessTimeoutError:
            raise FailedError("TIMEOUT", f"{doing}: no end after {self._timeout_s:g} s; killed") from None
        except (ProcessDiedError, ProcessGreedyError) as error:
            raise FailedError("RUNTIME_ERROR", f"{doing}: the process {error}") from None
        if not answer["ok"]:
            if answer["fatal"]:
                process.kill()
            raise FailedError(answer["status"], f"{doing}: {answer['message']}")
        return answer

    def _judge_solution(
        self, definition: Definition, workload: Workload, worker: _Worker, deadline: float
    ) -> Correctness:
        """Compare the outputs of every case. Raises FailedError on the first kind of failure met."""
        verdicts = []
        faults = []
        for case in range(count_cases(definition, workload)):
            request = {"workload": workload.model_dump(mode="json"), "case": case}
            answer = self._ask(worker.process, {"do": "call", **request}, deadline, "calling")
            verdict = self._ask_judge("compare", definition, request)
            verdicts.append(verdict)
            faults += _describe_faults(verdict, answer["changed_inputs"], list(definition.outputs))
        own = verdicts[0]["outputs"]
        correctness = Correctness(
            max_absolute_error=max((output["max_absolute_error"] for output in own), default=0.0),
            max_relative_error=max((output["max_relative_error"] for output in own), default=0.0),
            extra={
                "tolerance": {
                    name: {"rtol": output["rtol"], "atol": output["atol"]}
                    for name, output in zip(definition.outputs, own, strict=True)
                },
                "cases": [_summarize(verdict) for verdict in verdicts],
            },
        )
        if faults:
            raise FailedError("INCORRECT_NUMERICAL", "\n".join(faults), correctness)
        return correctness

    def _ask_judge(self, do: str, definition: Definition, request: Message) -> Message:
        if self._judge is None or not self._judge.alive:
            self._judge = self._zygote.spawn("judge", self._handover)
        message = {
            "do": do,
            "definition": definition.model_dump(mode="json"),
            "device": self.device.name,
            "dataset": str(self._dataset) if self._dataset else None,
            "settings": self._settings.model_dump(),
            **request,
        }
        try:
            answer = self._judge.request(message, time.monotonic() + self._timeout_s)
        except ProcessTimeoutError:
            raise ReferenceFailedError(f"the reference of {definition.name} took over {self._timeout_s:g} s") from None
        except ProcessDiedError as error:
            raise ReferenceFailedError(f"the judge {error}: {self._judge.take_log()}") from None
        if not answer["ok"]:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {answer['message']}")
        return answer

    def _ask_to_time(self, workload: Workload, process: Process, deadline: float) -> Message:
        request = {
            "do": "time",
            "workload": workload.model_dump(mode="json"),
            "settings": self._settings.model_dump(),
        }
        return self._ask(process, request, deadline, "timing")

    def _time_reference(self, definition: Definition, workload: Workload) -> float:
        """Median latency in milliseconds of the Definition's reference, timed like any solution."""
        key = (definition.name, workload.uuid)
        if key not in self._reference_ms:
            try:
                worker = self._worker(definition, reference_solution(definition))
                answer = self._ask_to_time(workload, worker.process, time.monotonic() + self._timeout_s)
            except FailedError as failure:
                raise ReferenceFailedError(f"the reference of {definition.name} failed: {failure}") from None
            self._reference_ms[key] = median(answer["samples_ms"])
        return self._reference_ms[key]

    def _make_performance(
        self,
        definition: Definition,
        workload: Workload,
        solution: Solution,
        worker: _Worker,
        answer: dict[str, Any],
        reference_ms: float,
    ) -> Performance:
        samples = sorted(answer["samples_ms"])
        latency_ms = median(samples)
        moved = bytes_moved(definition, workload)
        return Performance(
            latency_ms=latency_ms,
            reference_latency_ms=reference_ms,
            speedup_factor=reference_ms / latency_ms if latency_ms else 0.0,
            latency_p5_ms=_percentile(samples, 5),
            latency_p95_ms=_percentile(samples, 95),
            samples=len(samples),
            timer=answer["timer"],
            cold_l2=answer["cold_l2"],
            interpreted=capability(solution.spec.language.value, self.device).ability == "interpret",
            bytes_moved=moved,
            bandwidth_gb_per_s=moved / latency_ms / 1e6 if latency_ms else None,
            build_s=worker.build_s,
        )

    def close(self) -> None:
        """Release the shared memory; the zygote ends the processes."""
        os.close(self._handover)


def reference_solution(definition: Definition) -> Solution:
    """The Definition's reference as a Solution, so that it is built, timed and limited like any other."""
    return Solution(
        name=f"{definition.name}.reference",
        definition=definition.name,
        author="reference",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point=f"{_REFERENCE_FILE}::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path=_REFERENCE_FILE, content=definition.reference)],
    )


def _describe_faults(verdict: Message, changed_inputs: list[str], names: list[str]) -> list[str]:
    faults = []
    for name, output in zip(names, verdict["outputs"], strict=True):
        if output["mismatched"]:
            kinds = f"; wrong on: {', '.join(output['failing_kinds'])}" if output["failing_kinds"] else ""
            faults.append(
                f"{verdict['case']}: {name}: {output['mismatched']} of {output['elements']} elements wrong"
                f" (rtol {output['rtol']:g}, atol {output['atol']:.2g}); worst at {output['worst']}{kinds}"
            )
    faults += [f"{verdict['case']}: the call changed its input {name!r}" for name in changed_inputs]
    return faults


def _summarize(verdict: Message) -> dict[str, Any]:
    return {
        "case": verdict["case"],
        "max_absolute_error": max((output["max_absolute_error"] for output in verdict["outputs"]), default=0.0),
        "mismatched": sum(output["mismatched"] for output in verdict["outputs"]),
    }


def _percentile(ordered: list[float], percent: float) -> float:
    """The percentile of sorted samples by linear interpolation."""
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
