"""The scheduler: it keeps each device busy with one evaluation at a time, and records each Trace at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

from fib_rmsnorm.evaluation.device_runner import DeviceRunner, FoundRight
from fib_rmsnorm.evaluation.judging.reference_client import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.work_queue import WorkQueue
from fib_rmsnorm.languages import INTERPRETER
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import run_in_threads
from fib_rmsnorm.schema import Definition, Settings, Solution, Trace, Workload, digest

ResultKey = tuple[str, str, str, str, str, Settings | None]


@dataclass(frozen=True)
class Evaluated:
    """A Trace of this run, which has been recorded."""

    trace: Trace


@dataclass(frozen=True)
class Resumed:
    """A Trace of an earlier run, which replaces an evaluation of this one."""

    trace: Trace


@dataclass(frozen=True)
class Building:
    """A device's Solutions are being built."""

    device: Device
    solutions: int


@dataclass(frozen=True)
class Judged:
    """So many of a Workload's Solutions have been found right, which are timed when all have been judged."""

    definition: str
    workload: Workload
    right: int
    solutions: int
    """All that are judged on the Workload."""


Event = Evaluated | Resumed | Building | Judged | Skip


def result_key(
    definition: Definition, workload: Workload, solution: Solution, hardware: str, settings: Settings
) -> ResultKey:
    """The key that equal evaluations share: contents, workload, device model and settings."""
    return (definition.name, digest(definition), digest(solution), workload.uuid, hardware, settings)


def key_of_trace(trace: Trace) -> ResultKey | None:
    """The key of a passed Trace; None for a failure, which will be evaluated again, and for a Trace without digests."""
    evaluation = trace.evaluation
    if evaluation is None or evaluation.performance is None:
        return None
    if evaluation.definition_sha256 is None or evaluation.solution_sha256 is None:
        return None
    return (
        trace.definition,
        evaluation.definition_sha256,
        evaluation.solution_sha256,
        trace.workload.uuid,
        evaluation.environment.hardware.removesuffix(INTERPRETER),
        evaluation.settings,
    )


class Scheduler:
    """Runs a Plan over devices."""

    def __init__(
        self,
        fork_server: ForkServer,
        devices: list[Device],
        config: RunConfig,
        *,
        record: Callable[[Evaluated | Resumed], None] = lambda _: None,
        done: dict[ResultKey, Trace] | None = None,
    ) -> None:
        self._fork_server = fork_server
        self._settings = config.settings
        self._record = record
        self._record_lock = threading.Lock()
        self._done = done or {}
        self._device_runners = [DeviceRunner(fork_server, device, config) for device in devices]

    def run(self, plan: Plan) -> Generator[Event]:
        """Yield events as they happen. Closing the generator early, or an exception in its user, stops everything.

        At the end the processes still run: to end those that hold a GPU takes half a second.
        """
        yield from plan.skips
        device_runners = self._device_runners[: max(1, len(plan.groups))]
        work = WorkQueue(plan.groups, len(device_runners))
        jobs = [
            partial(self._run_device, device_runner, partial(work.take, number))
            for number, device_runner in enumerate(device_runners)
        ]
        yield from run_in_threads(jobs, self._fork_server.stop)

    def _run_device(self, device_runner: DeviceRunner, take: Callable[[], Group | None]) -> Iterator[Event]:
        while group := take():
            yield from self._run_group(device_runner, group)

    def _run_group(self, device_runner: DeviceRunner, group: Group) -> Iterator[Event]:
        missing = []
        for solution in group.solutions:
            earlier = self._result_of(device_runner, group, solution)
            if earlier is None:
                missing.append(solution)
            else:
                yield self._recorded(Resumed(earlier))
        if not missing:
            return
        if unbuilt := device_runner.count_unbuilt(missing):
            yield Building(device_runner.device, unbuilt)
        try:
            right = 0
            for found in device_runner.evaluate(group.definition, group.workload, missing, group.peer):
                if isinstance(found, FoundRight):
                    right += 1
                    yield Judged(group.definition.name, group.workload, right, len(missing))
                else:
                    yield self._recorded(Evaluated(found))
        except ReferenceFailedError as error:
            yield Skip(group.definition.name, None, str(error), group.workload, is_failure=True)

    def _result_of(self, device_runner: DeviceRunner, group: Group, solution: Solution) -> Trace | None:
        hardware = device_runner.device.hardware
        return self._done.get(result_key(group.definition, group.workload, solution, hardware, self._settings))

    def _recorded(self, event: Evaluated | Resumed) -> Evaluated | Resumed:
        """The same event, recorded: before it is yielded, and before the next evaluation starts."""
        with self._record_lock:
            self._record(event)
        return event
