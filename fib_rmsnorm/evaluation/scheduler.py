"""The scheduler: it keeps each device busy with one evaluation at a time, and records each Trace at once.

Devices share the work: they take the longest groups first, so that none works alone at the end.
"""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import run_in_threads
from fib_rmsnorm.schema import Trace, Workload

# An evaluation of a few rows takes as long as the part of another that grows with its bytes does for this many.
_FIXED_BYTES = 1 << 30


@dataclass(frozen=True)
class Evaluated:
    """A Trace that has been recorded."""

    trace: Trace
    is_resumed: bool = False
    """Whether an earlier run made it, which replaces an evaluation of this one."""


@dataclass(frozen=True)
class Building:
    """A device's Solutions are being built."""

    solutions: int


@dataclass(frozen=True)
class Judged:
    """So many of a Workload's Solutions have been found right, which are timed when all have been judged."""

    definition: str
    workload: Workload
    right: int
    solutions: int
    """All that are judged on the Workload."""


Event = Evaluated | Building | Judged | Skip


def estimate_work(group: Group) -> int:
    """How long a group takes, in bytes, of which only the ratios to other groups' mean anything."""
    return len(group.solutions) * (_FIXED_BYTES + bytes_moved(group.definition, group.workload))


class WorkQueue:
    """The groups that no device has taken yet. The devices' threads share it."""

    def __init__(self, groups: Iterable[Group], devices: int) -> None:
        """One device takes the groups in their own order: the time of all together does not depend on it.

        Several share the Definitions, those with the most work first.
        """
        self._lock = threading.Lock()
        self._left = list(groups) if devices == 1 else sorted(groups, key=estimate_work, reverse=True)
        work: Counter[str] = Counter()
        for group in self._left:
            work[group.definition.name] += estimate_work(group)
        self._unclaimed: list[list[str]] = [[] for _ in range(devices)]
        """The Definitions that are meant for a device each, in order, which has taken no group yet."""
        self._shares: dict[int, list[str]] = {}
        """By device, the Definitions that are meant for it. It holds workers for the first one's Solutions."""
        for name, _ in work.most_common() if devices > 1 else work.items():
            min(self._unclaimed, key=lambda share: sum(work[each] for each in share)).append(name)

    def __bool__(self) -> bool:
        with self._lock:
            return bool(self._left)

    def take(self, device: int) -> Group | None:
        """The next group for the device of this number; None if none is left.

        A device stays with a Definition. When its own are done, it helps where the most work is left for each device.
        """
        with self._lock:
            following = self._follow(device)
            if not following:
                return None
            share, name = self._shares[device], following[0].definition.name
            share[:] = [name, *(each for each in share if each != name)]
            self._left.remove(following[0])
            return following[0]

    def _work_for_another(self, definition: str) -> float:
        """The work that is left of a Definition for each of its devices if one more comes."""
        work = sum(estimate_work(group) for group in self._left if group.definition.name == definition)
        return work / (1 + sum(share[:1] == [definition] for share in self._shares.values()))

    def find_next(self, device: int) -> list[Group]:
        """The groups that the device of this number will take next, as far as that is known now."""
        with self._lock:
            return self._follow(device)

    def _follow(self, device: int) -> list[Group]:
        """The groups of a device's share, which it claims the first time; else those with which it helps."""
        if device not in self._shares:
            self._shares[device] = self._unclaimed.pop(0) if self._unclaimed else []
        names = dict.fromkeys(group.definition.name for group in self._left)
        mine = [name for name in self._shares[device] if name in names]
        if not mine and names:
            mine = [max(names, key=self._work_for_another)]
        return [group for name in mine for group in self._left if group.definition.name == name]

    def put_back(self, device: int, group: Group) -> None:
        """Have another device take the group that was this one's last: this one takes no more."""
        with self._lock:
            self._left.insert(0, group)
            self._shares[device].clear()


class Scheduler:
    """Runs a Plan over devices."""

    def __init__(
        self,
        fork_server: ForkServer,
        devices: list[Device],
        config: RunConfig,
        *,
        record: Callable[[Trace], Trace] = lambda trace: trace,
    ) -> None:
        """`record` returns a Trace as it is on disk."""
        self._fork_server = fork_server
        self._record = record
        self._record_lock = threading.Lock()
        self._device_runners = [DeviceRunner(fork_server, device, config) for device in devices]

    def run(self, plan: Plan) -> Generator[Event]:
        """Yield events as they happen. Closing the generator early, or an exception in its user, stops everything.

        At the end the processes still run: to end those that hold a GPU takes half a second.
        """
        device_runners = self._device_runners[: max(1, len(plan.groups))]
        work = WorkQueue(plan.groups, len(device_runners))
        jobs = [partial(self._run_device, runner, work, number) for number, runner in enumerate(device_runners)]
        yield from run_in_threads(jobs, self._fork_server.stop)

    def _run_device(self, device_runner: DeviceRunner, work: WorkQueue, number: int) -> Iterator[Event]:
        try:
            while group := work.take(number):
                device_runner.gate.want([group, *work.find_next(number)])
                yield from self._run_group(device_runner, group)
        finally:
            device_runner.gate.close()

    def _run_group(self, device_runner: DeviceRunner, group: Group) -> Iterator[Event]:
        if unbuilt := device_runner.workers.count_unbuilt(group.solutions):
            yield Building(unbuilt)
        try:
            right = 0
            for found in device_runner.evaluate(group):
                if isinstance(found, Admitted):
                    right += 1
                    yield Judged(group.definition.name, group.workload, right, len(group.solutions))
                elif isinstance(found, Skip):
                    yield found
                else:
                    with self._record_lock:  # before it is yielded, and before the next evaluation starts
                        recorded = self._record(found)
                    yield Evaluated(recorded)
        except ReferenceFailedError as error:
            yield Skip(group.definition.name, None, str(error), group.workload, is_failure=True)
