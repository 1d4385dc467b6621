"""The workers of a device: one for each Solution, built once and reused, replaced when it has died."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import ValidationError

from fib_rmsnorm.evaluation.answers import Answer, Built, Failed
from fib_rmsnorm.evaluation.building.cache import cache_folder
from fib_rmsnorm.evaluation.capabilities import capability
from fib_rmsnorm.evaluation.channel import Message
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.process import Process, ProcessDiedError, ProcessGreedyError, ProcessTimeoutError
from fib_rmsnorm.evaluation.spawning import Zygote
from fib_rmsnorm.evaluation.strays import find_strays
from fib_rmsnorm.schema import Correctness, Definition, EvaluationStatus, Settings, Solution, digest

# Each worker holds memory (on a GPU also a context); beyond this many the longest idle one goes.
MOST_WORKERS = 24
_MEMORY_SHARE = 0.75


@dataclass(frozen=True)
class Terms:
    """What holds for every evaluation of a run."""

    settings: Settings
    timeout_s: float
    """For a build, and for an evaluation."""
    dataset: Path | None = None
    """The folder that safetensors inputs are relative to."""
    memory_limit_bytes: int = int(psutil.virtual_memory().total * _MEMORY_SHARE)
    """Resident memory that a worker and its descendants may take."""


@dataclass
class Allowance:
    """Seconds that a worker may still take for what it is asked; what the judge takes is not charged to it."""

    left_s: float


class FailedError(Exception):
    """An evaluation ended with a status other than PASSED."""

    def __init__(self, status: EvaluationStatus | str, message: str, correctness: Correctness | None = None) -> None:
        super().__init__(message)
        self.status = EvaluationStatus(status)
        self.correctness = correctness

    def with_log(self, log: str) -> FailedError:
        """The same failure, with what the process wrote below its message."""
        text = "\n".join(part for part in (str(self), log.strip()) if part)
        return FailedError(self.status, text, self.correctness)


@dataclass(frozen=True)
class Worker:
    """A process that holds one built Solution."""

    process: Process
    build_s: float
    terms: Terms

    def ask(self, request: Message, kind: type[Answer], allowance: Allowance) -> Answer:
        """Ask for an answer of a kind. Raises FailedError with the status that the way it failed has."""
        return ask_process(self.process, request, kind, allowance, self.terms)


class WorkerPool:
    """Starts, finds and replaces workers on one device."""

    def __init__(self, zygote: Zygote, device: Device, terms: Terms) -> None:
        self._zygote = zygote
        self._device = device
        self._terms = terms
        self._workers: OrderedDict[str, Worker] = OrderedDict()
        self._unbuildable: dict[str, tuple[EvaluationStatus, str]] = {}

    def find(self, definition: Definition, solution: Solution) -> Worker:
        """The worker that holds the built Solution. Raises FailedError if it does not build."""
        key = digest(solution)
        if key in self._unbuildable:
            raise FailedError(*self._unbuildable[key])
        found = self._workers.get(key)
        if found is not None and found.process.alive:
            self._workers.move_to_end(key)
            return found
        try:
            self._workers[key] = self._start(definition, solution)
        except FailedError as failure:
            self._unbuildable[key] = (failure.status, str(failure))
            raise
        while len(self._workers) > MOST_WORKERS:
            self._workers.popitem(last=False)[1].process.kill()
        return self._workers[key]

    def holds(self, solution: Solution) -> bool:
        """Whether a worker that lives holds the Solution, or it is known not to build."""
        key = digest(solution)
        return key in self._unbuildable or (key in self._workers and self._workers[key].process.alive)

    def expose_strays(self) -> dict[Process, str]:
        """End the workers that go on working, or left a process, while all of them should be idle; and say how."""
        processes = {worker.process.pid: worker.process for worker in self._workers.values() if worker.process.alive}
        found = {processes[pid]: what for pid, what in find_strays(processes).items()}
        self._zygote.kill_escaped()
        escaped = self._zygote.escaped_sessions & processes.keys()
        found |= {processes[pid]: "left a process running that is not its child" for pid in escaped}
        for process in found:
            process.kill()
        return found

    def _start(self, definition: Definition, solution: Solution) -> Worker:
        interpreted = capability(solution.spec.language.value, self._device).ability == "interpret"
        # Triton decides when it is imported, so this must be set before.
        environment = {"TRITON_INTERPRET": "1"} if interpreted else {}
        process = self._zygote.spawn("worker", environment)
        request = {
            "do": "build",
            "definition": definition.model_dump(mode="json"),
            "solution": solution.model_dump(mode="json"),
            "device": self._device.name,
            "dataset": str(self._terms.dataset) if self._terms.dataset else None,
            "cache": str(cache_folder()),
        }
        try:
            built = ask_process(process, request, Built, Allowance(self._terms.timeout_s), self._terms)
        except FailedError as failure:
            process.kill()
            raise failure.with_log(process.take_log()) from None
        return Worker(process, built.build_s, self._terms)


_DOING = {
    "build": "building",
    "compile": "compiling",
    "inspect": "compiling",
    "call": "calling",
    "set_stage": "warming up",
    "time": "timing",
    "reveal": "judging timed calls",
    "count_costs": "counting costs",
    "strike_stage": "finishing",
}


def ask_process(process: Process, request: Message, kind: type[Answer], allowance: Allowance, terms: Terms) -> Answer:
    """Ask any worker process, as `Worker.ask` does."""
    doing = _DOING[request["do"]]
    started = time.monotonic()
    try:
        message = process.request(request, started + allowance.left_s, terms.memory_limit_bytes)
        answer = Failed.model_validate(message) if message.get("ok") is False else kind.model_validate(message)
    except ProcessTimeoutError:
        raise FailedError("TIMEOUT", f"{doing}: no end after {terms.timeout_s:g} s; killed") from None
    except (ProcessDiedError, ProcessGreedyError) as error:
        raise FailedError("RUNTIME_ERROR", f"{doing}: the process {error}") from None
    except ValidationError:
        process.kill()
        raise FailedError("RUNTIME_ERROR", f"{doing}: the process sent an answer that makes no sense") from None
    allowance.left_s -= time.monotonic() - started
    if isinstance(answer, Failed):
        if answer.fatal:
            process.kill()
        raise FailedError(answer.status, f"{doing}: {answer.message}")
    return answer
