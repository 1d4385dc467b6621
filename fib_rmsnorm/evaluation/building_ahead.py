"""Build the Solutions that come next, and call each once, while a GPU times what is ready."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psutil

from fib_rmsnorm.evaluation.judging.comparer import reference_solution
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.worker.worker_messages import Called
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.evaluation.worker_pool import MAX_WORKERS, WorkerPool
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.schema import Definition, Solution, Workload, digest

_WORKER_BYTES = 2 << 30
"""A worker's share of a GPU's memory, and of the host's: a context, libraries, the tensors of a small call."""
_MOST_BYTES_CALLED = 64 << 20
"""A larger Workload is not called ahead: its tensors would fill the memory, and the call would last on the GPU."""


@dataclass(frozen=True)
class FirstCall:
    """A worker that was started ahead, and its answer to the first call; None if it was not called."""

    worker: WorkerClient
    answer: Called | None


class BuildsAhead:
    """Starts workers in the order in which a device will want them, and ends those that it wants no more.

    Compilers run then, also those that only run at a Solution's first call. Of the cores, those stay free that timing
    needs. On a CPU nothing is built ahead, because it would take the cores from what is timed.
    """

    def __init__(self, workers: WorkerPool, judge_client: JudgeClient, device: Device) -> None:
        self._workers = workers
        self._judge_client = judge_client
        self._device = device
        self._pool = ThreadPoolExecutor(len(workers.build_cores))
        self._calls: dict[tuple[str, str], Future[FirstCall | None]] = {}
        """By the Solution's digest and the Workload's uuid."""

    def want(self, groups: Sequence[Group]) -> None:
        """Start what these groups need, in their order and as far as memory allows; end what no group needs."""
        self._workers.end_finished({group.definition.name for group in groups})
        if self._device.kind == "cpu":
            return
        room = self._count_room()
        self._workers.most_held = max(MAX_WORKERS, room)
        for group in _first_of_each_definition(groups):
            room -= 1 + len(group.solutions)
            if room < 0 and group is not groups[0]:
                return
            for solution in (reference_solution(group.definition), *in_order_of_start(group.solutions)):
                key = digest(solution), group.workload.uuid
                if key not in self._calls:
                    self._calls[key] = self._pool.submit(self._start, group.definition, group.workload, solution)

    def take(self, definition: Definition, workload: Workload, solution: Solution) -> FirstCall:
        """The Solution's worker, and its first call on the Workload if that was made ahead.

        Raises EvaluationFailedError if the Solution does not build, or if that call failed.
        """
        future = self._calls.pop((digest(solution), workload.uuid), None) if self._calls else None
        ahead = future.result() if future else None
        worker = self._workers.find(definition, solution)
        return ahead if ahead and ahead.worker.process is worker.process else FirstCall(worker, None)

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _count_room(self) -> int:
        """How many workers fit into the memory of the device and of the host, with those that there are."""
        fitting = self._device.memory_bytes // _WORKER_BYTES
        fitting_host = len(self._workers) + psutil.virtual_memory().available // _WORKER_BYTES
        return int(min(fitting, fitting_host))

    def _start(self, definition: Definition, workload: Workload, solution: Solution) -> FirstCall | None:
        with suppress(DeviceUnusableError):  # the device is full; when its turn comes, the Solution is built again
            worker = self._workers.find(definition, solution, ahead=True)
            is_called = solution.name != reference_solution(definition).name
            if not is_called or bytes_moved(definition, workload) > _MOST_BYTES_CALLED:
                return FirstCall(worker, None)
            with self._workers.answering(solution):
                try:
                    return FirstCall(worker, self._judge_client.call(workload, worker))
                except EvaluationFailedError as failure:
                    raise failure.with_log(worker.process.take_log()) from None
        return None


def _first_of_each_definition(groups: Sequence[Group]) -> Iterable[Group]:
    found: dict[str, Group] = {}
    for group in groups:
        found.setdefault(group.definition.name, group)
    return found.values()


def in_order_of_start(solutions: Sequence[Solution]) -> list[Solution]:
    """First those whose compilers take tens of seconds if nothing is in the cache, then Python.

    That imports libraries, or compiles at its first call; the others have only their kernels to compile.
    """

    def takes_less(solution: Solution) -> tuple[bool, bool]:
        language = solution.spec.language.value
        return not LANGUAGES[language].is_compiled, language != "python"

    return sorted(solutions, key=takes_less)
