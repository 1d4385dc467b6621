"""Let only those Solutions be timed that build and are right on every case; on a GPU, build the next ones meanwhile."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace

import psutil

from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.worker.worker_messages import Called
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient, reference_solution
from fib_rmsnorm.evaluation.worker_pool import MAX_WORKERS, WorkerPool
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.sandbox.process import Process
from fib_rmsnorm.schema import Correctness, Definition, Peer, Solution, Workload, digest

_MAX_BYTES_AT_ONCE = 2 << 30
_SHARE_AT_ONCE = 1 / 16  # of the memory of a GPU
_WORKER_BYTES = 2 << 30
"""A worker's share of a GPU's memory, and of the host's: a context, libraries, the tensors of a small call."""
_MOST_BYTES_CALLED = 64 << 20
"""A larger Workload is not called ahead: its tensors would fill the memory, and the call would last on the GPU."""


def count_at_once(definition: Definition, workload: Workload, device: Device) -> int:
    """The number of Solutions that may be called or judged at the same time.

    Each has two copies of its inputs and outputs on the device, and its outputs stay in memory until they are judged.
    """
    room = max(_MAX_BYTES_AT_ONCE, int(_SHARE_AT_ONCE * device.memory_bytes) if device.kind != "cpu" else 0)
    return max(1, min(os.cpu_count() or 1, room // bytes_moved(definition, workload)))


@dataclass(frozen=True)
class Admitted:
    """A Solution that may be timed, and the worker that holds it."""

    solution: Solution
    worker: WorkerClient
    first_call_ms: float | None = None
    """The time of the first call; None for a Definition's reference, which is not judged."""
    correctness: Correctness | None = None


class CorrectnessGate:
    """Builds, calls and judges Solutions on one device.

    It starts workers in the order in which the device will want them. Compilers run then, also those that only run at a
    Solution's first call. Of the cores, those stay free that timing needs. On a CPU nothing is built ahead, because it
    would take the cores from what is timed.
    """

    def __init__(self, workers: WorkerPool, judge_client: JudgeClient, device: Device) -> None:
        self._workers = workers
        self._device = device
        self._judge_client = judge_client
        self._ahead = ThreadPoolExecutor(len(workers.build_cores))
        self._calls: dict[tuple[str, str], Future[tuple[Process, Called] | None]] = {}
        """Workers started ahead, and their answers if they were called: by digest and the Workload's uuid."""

    def want(self, groups: Sequence[Group]) -> None:
        """Start what these groups need, in their order and as far as memory allows; end what no group needs."""
        self._workers.end_finished({group.definition.name for group in groups})
        if self._device.kind == "cpu":
            return
        # As many workers as the memory of the device holds, and that of the host beside those that there are.
        fitting_host = len(self._workers) + psutil.virtual_memory().available // _WORKER_BYTES
        room = int(min(self._device.memory_bytes // _WORKER_BYTES, fitting_host))
        self._workers.most_held = max(MAX_WORKERS, room)
        firsts: dict[str, Group] = {}
        for group in groups:
            firsts.setdefault(group.definition.name, group)
        for group in firsts.values():
            room -= 1 + len(group.solutions)
            if room < 0 and group is not groups[0]:
                return
            for solution in (reference_solution(group.definition), *_in_order_of_start(group.solutions)):
                key = digest(solution), group.workload.uuid
                if key not in self._calls:
                    self._calls[key] = self._ahead.submit(self._call_ahead, group.definition, group.workload, solution)

    def close(self) -> None:
        """Build nothing more ahead."""
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def _call_ahead(
        self, definition: Definition, workload: Workload, solution: Solution
    ) -> tuple[Process, Called] | None:
        with suppress(DeviceUnusableError):  # the device is full; when its turn comes, the Solution is built again
            worker = self._workers.find(definition, solution, ahead=workload)
            is_reference = solution.name == reference_solution(definition).name
            if not is_reference and bytes_moved(definition, workload) <= _MOST_BYTES_CALLED:
                with self._workers.answering(solution):
                    try:
                        return worker.process, self._judge_client.call(workload, worker)
                    except EvaluationFailedError as failure:
                        raise failure.with_log(worker.process.take_log()) from None
        return None

    def admit(
        self, group: Group, needed: Sequence[Callable[[], object]] = (), meanwhile: Callable[[], object] = lambda: None
    ) -> Iterator[tuple[Solution, Admitted | EvaluationFailedError]]:
        """Judge each Solution of a group. Yields each verdict as soon as it is known.

        Compilers take most of the time, usually at the first call. Nothing is timed yet, so the Solutions are built,
        called and judged in parallel, those first that take the longest. What every verdict has `needed` runs beside
        them from the start, and `meanwhile` when all have begun: a GPU's driver lets few processes in at a time. A
        peer among the Solutions comes first and alone: the outputs of all others are compared with its own. Raises
        ReferenceFailedError.
        """
        definition, workload, peer = group.definition, group.workload, group.peer
        others = [solution for solution in group.solutions if peer is None or solution.name != peer.name]
        others = _in_order_of_start(others)
        stages = [others] if peer is None or len(others) == len(group.solutions) else [[peer], others]
        room = threading.Semaphore(count_at_once(definition, workload, self._device))
        with ThreadPoolExecutor((os.cpu_count() or 1) + len(needed) + 1) as pool:
            aside: list[Future[object]] = [pool.submit(task) for task in needed]
            try:
                for number, some in enumerate(stages):
                    keep_as = Peer(peer.name, digest(peer)) if peer and some == [peer] else None
                    verdicts = {
                        pool.submit(self.examine, definition, workload, one, room, keep_as): one for one in some
                    }
                    if number == 0:
                        aside.append(pool.submit(meanwhile))
                    for future in as_completed(verdicts):
                        yield verdicts[future], future.result()
                for task in aside:
                    task.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # or what has not begun would be built in vain
                raise

    def examine(
        self,
        definition: Definition,
        workload: Workload,
        solution: Solution,
        room: AbstractContextManager[object],
        keep_as: Peer | None = None,
    ) -> Admitted | EvaluationFailedError:
        """Build a Solution, and call and judge it within `room`; with `keep_as`, the judge keeps its outputs.

        Raises ReferenceFailedError if the expected outputs are unknown.
        """
        started = self._calls.pop((digest(solution), workload.uuid), None) if self._calls else None
        try:
            called = started.result() if started else None
            worker = self._workers.find(definition, solution)
        except EvaluationFailedError as failure:
            return failure
        worker = replace(worker, limit_s=worker.config.limit_for(definition, workload, self._device))
        first = called[1] if called and called[0] is worker.process else None
        with room:
            try:
                first = first or self._judge_client.call(workload, worker)
                correctness = self._judge_client.judge(workload, worker, first, keep_as)
            except EvaluationFailedError as failure:
                return failure.with_log(worker.process.take_log())
        return Admitted(solution, worker, first.call_ms, correctness)


def _in_order_of_start(solutions: Sequence[Solution]) -> list[Solution]:
    """First those whose compilers take tens of seconds if nothing is in the cache, then Python.

    That imports libraries, or compiles at its first call; the others have only their kernels to compile.
    """

    def takes_less(solution: Solution) -> tuple[bool, bool]:
        language = solution.spec.language.value
        return not LANGUAGES[language].is_compiled, language != "python"

    return sorted(solutions, key=takes_less)
