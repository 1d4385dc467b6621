"""Give each device one Workload at a time, record what comes back, and give what a lost device had to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

from fib_rmsnorm.cluster.device_pool import DevicePool, PooledDevice, describe_error
from fib_rmsnorm.evaluation.bench import Told
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip
from fib_rmsnorm.evaluation.scheduler import Evaluated, Event, ResultKey, WorkQueue, result_key
from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_by_definition
from fib_rmsnorm.schema import Settings, Solution, Trace

_POLL_S = 1.0


class Dispatcher:
    """Runs one Plan for each model of device."""

    def __init__(
        self,
        pool: DevicePool,
        plans: dict[str, Plan],
        settings: Settings,
        *,
        sealer: Sealer,
        record: Callable[[Evaluated], None],
        done: dict[ResultKey, Trace],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._sealer = sealer
        self._record = record
        self._done = dict(done)
        devices = Counter(device.hardware for device in pool.devices)
        planned = [(group.definition.name, group.workload) for plan in plans.values() for group in plan.groups]
        self._titles = title_by_definition((definition, NamedWorkload.of(each)) for definition, each in planned)
        """The titles of the Workloads, by Definition, then by uuid."""
        self._queues = {model: WorkQueue(plan.groups, devices[model]) for model, plan in plans.items()}
        self._running: dict[Any, tuple[PooledDevice, Group]] = {}
        """The work of each device, by Ray's generator of what it answers."""
        self._recorded: set[ResultKey] = set()

    def run(self) -> Generator[Event | Told]:
        """Yield events as they happen, each Trace when it is on disk."""
        while self._running or any(self._queues.values()):
            yield from self._give_out()
            yield from self._give_up()
            if self._running:
                ready, _ = ray.wait([*self._running], timeout=_POLL_S, fetch_local=False)
                for answer in ready:
                    yield from self._advance(answer)

    def _give_out(self) -> Generator[Event]:
        busy = {device for device, _ in self._running.values()}
        for device in [device for device in self._pool.devices if device not in busy]:
            queue = self._queues[device.hardware]
            while (group := queue.take(device.number)) is not None:
                missing = yield from self._find_missing(device.hardware, group)
                if missing:
                    self._start(device, group, missing)
                    break

    def _find_missing(self, hardware: str, group: Group) -> Generator[Event, None, list[Solution]]:
        """The Solutions of a group that have no Trace; yield the Traces of an earlier run."""
        missing = []
        for solution in group.solutions:
            key = result_key(group, solution, hardware, self._settings)
            if key in self._recorded:
                continue
            if earlier := self._done.get(key):
                yield self._emit(Evaluated(earlier, is_resumed=True), key)
            else:
                missing.append(solution)
        return missing

    def _emit(self, event: Evaluated, key: ResultKey) -> Event:
        self._record(event)
        self._recorded.add(key)
        return event

    def _start(self, device: PooledDevice, group: Group, missing: list[Solution]) -> None:
        if group.peer and group.peer not in missing:
            missing = [group.peer, *missing]  # evaluated again, because the others' outputs are compared with its own
        lacking = replace(group, solutions=tuple(missing))
        self._running[device.actor.evaluate.options(num_returns="streaming").remote(lacking)] = device, group

    def _advance(self, answer: Any) -> Generator[Event | Told]:
        """Take the next event of a device that has one, or see that it is done or lost."""
        device, group = self._running[answer]
        try:
            event: Event = ray.get(next(answer))
        except StopIteration:
            del self._running[answer]
        except RayError as error:
            del self._running[answer]
            yield self._lose(device, group, describe_error(error))
        else:
            if not isinstance(event, Evaluated):
                yield event
                return
            solution = next(each for each in group.solutions if each.name == event.trace.solution)
            key = result_key(group, solution, device.hardware, self._settings)
            if key not in self._recorded:
                yield self._emit(Evaluated(self._sealer.seal(event.trace)), key)

    def _lose(self, device: PooledDevice, group: Group, why: str) -> Told:
        """Give a lost device's Workload to another."""
        self._pool.give_back(device)
        self._queues[device.hardware].put_back(device.number, group)
        named = f"{group.definition.name} at {self._titles[group.definition.name][group.workload.uuid]}"
        return Told(f"{device.name} was lost ({why}) while it evaluated {named}, which another device evaluates again")

    def _give_up(self) -> Generator[Event]:
        """Skip what has no device of its model any more."""
        served = {device.hardware for device in self._pool.devices}
        for model, queue in self._queues.items():
            while model not in served and (group := queue.take(0)) is not None:
                reason = f"not judged: no {model} is left in the cluster"
                yield Skip(group.definition.name, None, reason, group.workload, is_failure=True)
