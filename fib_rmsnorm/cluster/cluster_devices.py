"""The devices of a Ray cluster: each has one Workload at a time, and what a lost one had goes to another."""

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

from fib_rmsnorm.cluster.device_pool import DevicePool, PooledDevice, describe_error, find_readiness
from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, LocalDevices, Told
from fib_rmsnorm.evaluation.plan import BenchRecords, Group, Plan, Skip, make_plan
from fib_rmsnorm.evaluation.scheduler import Evaluated, Event, WorkQueue
from fib_rmsnorm.registry.selection import NamedWorkload, title_by_definition
from fib_rmsnorm.schema import SafetensorsInput, Trace

_POLL_S = 1.0
_NO_FILES = "it reads tensors from files, which the nodes do not have; bench it without --ray"


class ClusterDevices(LocalDevices):
    """The devices of a cluster: each Workload runs once on each model."""

    def __init__(self, options: BenchOptions, pool: DevicePool) -> None:
        self._options = options
        self._pool = pool
        self._running: dict[Any, tuple[PooledDevice, Group]] = {}
        """The work of each device, by Ray's generator of what it answers."""
        self._recorded: set[tuple[str, str, str]] = set()
        """Model, the Workload's uuid and the Solution's name of what was evaluated."""

    def make_plans(self, records: BenchRecords) -> list[tuple[Plan, list[str]]]:
        """A plan for each model: what all devices of it can run, and what fits the smallest."""
        models = self._pool.choose_models()
        self._plans = {model: self._make_plan(records, devices) for model, devices in models.items()}
        return [(plan, [model] * len(models[model])) for model, plan in self._plans.items()]

    def _make_plan(self, records: BenchRecords, devices: list[PooledDevice]) -> Plan:
        try:
            found = find_readiness(devices, [*records.solutions.values()])
        except RayError as error:
            raise FibRmsnormError(
                f"--ray: a node was lost before anything ran; run it again: {describe_error(error)}"
            ) from None
        smallest = min((device.facts.device for device in devices), key=lambda each: each.memory_bytes)
        plan = make_plan(records, self._options.selection, smallest, lambda solution: found[solution.name])
        for group in [*plan.groups]:
            if any(isinstance(given, SafetensorsInput) for given in group.workload.inputs.values()):
                plan.groups.remove(group)
                plan.skips.append(Skip(group.definition.name, None, _NO_FILES, group.workload))
        if not plan.groups:
            raise InputError(f"nothing to evaluate with --ray: {_NO_FILES}")
        return plan

    def run(self, record: Callable[[Trace], Trace]) -> Generator[Event | Told]:
        """Run the plan of each model on its devices. Yield each Trace when it is on disk."""
        self._record = record
        devices = Counter(device.hardware for device in self._pool.devices)
        planned = [(group.definition.name, group.workload) for plan in self._plans.values() for group in plan.groups]
        self._titles = title_by_definition((definition, NamedWorkload.of(each)) for definition, each in planned)
        self._queues = {model: WorkQueue(plan.groups, devices[model]) for model, plan in self._plans.items()}
        while self._running or any(self._queues.values()):
            self._give_out()
            yield from self._give_up()
            if self._running:
                ready, _ = ray.wait([*self._running], timeout=_POLL_S, fetch_local=False)
                for answer in ready:
                    yield from self._advance(answer)

    def _give_out(self) -> None:
        busy = {device for device, _ in self._running.values()}
        for device in [device for device in self._pool.devices if device not in busy]:
            queue = self._queues[device.hardware]
            while (group := queue.take(device.number)) is not None:
                missing = [
                    each for each in group.solutions if self._key(device, group, each.name) not in self._recorded
                ]
                if missing:
                    if group.peer and group.peer not in missing:
                        missing.insert(0, group.peer)  # again: the others' outputs are compared with its own
                    lacking = replace(group, solutions=tuple(missing))
                    answers = device.actor.evaluate.options(num_returns="streaming").remote(lacking)
                    self._running[answers] = device, group
                    break

    @staticmethod
    def _key(device: PooledDevice, group: Group, solution: str) -> tuple[str, str, str]:
        return device.hardware, group.workload.uuid, solution

    def _advance(self, answer: Any) -> Generator[Event | Told]:
        """Take the next event of a device that has one, or see that it is done or lost."""
        device, group = self._running[answer]
        try:
            event: Event = ray.get(next(answer))
        except StopIteration:
            del self._running[answer]
        except RayError as error:
            del self._running[answer]
            self._pool.give_back(device)
            self._queues[device.hardware].put_back(device.number, group)
            lost = f"{device.name} was lost ({describe_error(error)}) while it evaluated {group.definition.name}"
            title = self._titles[group.definition.name][group.workload.uuid]
            yield Told(f"{lost} at {title}, which another device evaluates again")
        else:
            if not isinstance(event, Evaluated):
                yield event
                return
            key = self._key(device, group, event.trace.solution or "")
            if key not in self._recorded:
                recorded = self._record(event.trace)
                self._recorded.add(key)
                yield Evaluated(recorded)

    def _give_up(self) -> Generator[Event]:
        """Skip what has no device of its model any more."""
        served = {device.hardware for device in self._pool.devices}
        for model, queue in self._queues.items():
            while model not in served and (group := queue.take(0)) is not None:
                reason = f"not judged: no {model} is left in the cluster"
                yield Skip(group.definition.name, None, reason, group.workload, is_failure=True)
