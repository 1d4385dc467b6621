"""Who may race on a Workload: the Solutions that build and are right on every case."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from fib_rmsnorm.evaluation.answers import Called
from fib_rmsnorm.evaluation.court import Court
from fib_rmsnorm.evaluation.race import Entrant
from fib_rmsnorm.evaluation.workers import Allowance, FailedError, WorkerPool
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import Definition, Solution, Workload

# Outputs of first calls wait in memory until they are judged, and their inputs are on the device meanwhile.
_MOST_WAITING_BYTES = 2 << 30

Verdict = Entrant | FailedError


class Admission:
    """Builds, calls and judges Solutions on one device."""

    def __init__(self, workers: WorkerPool, court: Court, timeout_s: float) -> None:
        self._workers = workers
        self._court = court
        self._timeout_s = timeout_s

    def admit(
        self,
        definition: Definition,
        workload: Workload,
        solutions: Sequence[Solution],
        meanwhile: Sequence[Callable[[], object]] = (),
    ) -> Iterator[tuple[Solution, Verdict]]:
        """Each Solution as an entrant that is right, or with its failure; those that are built first come first.

        Compilers take most of the time, most of them at a first call. So the Solutions are built and called for the
        first time side by side, and what else takes as long is done `meanwhile`; nothing is being timed yet.
        """
        at_once = max(1, min(os.cpu_count() or 1, _MOST_WAITING_BYTES // bytes_moved(definition, workload)))
        call = partial(self._call_first, definition, workload)
        with ThreadPoolExecutor(at_once + len(meanwhile)) as pool:
            aside = [pool.submit(task) for task in meanwhile]
            for start in range(0, len(solutions), at_once):
                some = solutions[start : start + at_once]
                calls = {pool.submit(call, solution): solution for solution in some}
                for future in as_completed(calls):
                    called = future.result()
                    verdict = called if isinstance(called, FailedError) else self._judge(definition, workload, *called)
                    yield calls[future], verdict
            for task in aside:
                task.result()

    def _call_first(
        self, definition: Definition, workload: Workload, solution: Solution
    ) -> tuple[Entrant, Called] | FailedError:
        try:
            worker = self._workers.find(definition, solution)
        except FailedError as failure:
            return failure
        entrant = Entrant(solution, worker, Allowance(self._timeout_s))
        try:
            called = self._court.call(workload, 0, worker, entrant.allowance)
        except FailedError as failure:
            return failure.with_log(worker.process.take_log())
        entrant.first_call_ms = called.call_ms
        return entrant, called

    def _judge(self, definition: Definition, workload: Workload, entrant: Entrant, first: Called) -> Verdict:
        worker = entrant.worker
        try:
            entrant.correctness = self._court.judge(definition, workload, worker, first, entrant.allowance)
        except FailedError as failure:
            return failure.with_log(worker.process.take_log())
        return entrant
