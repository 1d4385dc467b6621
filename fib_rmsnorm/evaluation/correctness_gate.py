"""Let only those Solutions be timed that build and are right on every case."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from fib_rmsnorm.evaluation.building_ahead import BuildsAhead, in_order_of_start
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.evaluation.worker_pool import WorkerPool
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import Correctness, Definition, Peer, Solution, Workload, digest

_MAX_BYTES_AT_ONCE = 2 << 30
_SHARE_AT_ONCE = 1 / 16  # of the memory of a GPU


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
    """Builds, calls and judges Solutions on one device."""

    def __init__(self, workers: WorkerPool, ahead: BuildsAhead, judge_client: JudgeClient, device: Device) -> None:
        self._workers = workers
        self._ahead = ahead
        self._device = device
        self._judge_client = judge_client

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
        others = in_order_of_start(others)
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
        try:
            ahead = self._ahead.take(definition, workload, solution)
        except EvaluationFailedError as failure:
            return failure
        limit_s = ahead.worker.config.limit_for(definition, workload, self._device)
        worker = replace(ahead.worker, limit_s=limit_s)
        with room:
            try:
                first = ahead.answer or self._judge_client.call(workload, worker)
                correctness = self._judge_client.judge(workload, worker, first, keep_as)
            except EvaluationFailedError as failure:
                return failure.with_log(worker.process.take_log())
        return Admitted(solution, worker, first.call_ms, correctness)
