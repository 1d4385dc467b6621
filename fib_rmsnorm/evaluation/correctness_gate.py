"""Who may race on a Workload: the Solutions that build and are right on every case."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from fib_rmsnorm.evaluation.interleaved_trials import Candidate
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, WorkerPool
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import Definition, Solution, Workload

# Inputs and outputs of calls are on the device at the same time, and outputs wait in memory until they are judged.
_MOST_AT_WORK_BYTES = 2 << 30

Verdict = Candidate | EvaluationFailedError


class CorrectnessGate:
    """Builds, calls and judges Solutions on one device."""

    def __init__(self, workers: WorkerPool, judge_client: JudgeClient, timeout_s: float) -> None:
        self._workers = workers
        self._judge_client = judge_client
        self._timeout_s = timeout_s

    def admit(
        self,
        definition: Definition,
        workload: Workload,
        solutions: Sequence[Solution],
        meanwhile: Sequence[Callable[[], object]] = (),
    ) -> Iterator[tuple[Solution, Verdict]]:
        """Each Solution as an entrant that is right, or with its failure; those that are ready first come first.

        Compilers take most of the time, most of them at a first call. So the Solutions are built, called and judged
        side by side, and what else takes as long is done `meanwhile`; nothing is being timed yet.
        """
        at_once = max(1, min(os.cpu_count() or 1, _MOST_AT_WORK_BYTES // bytes_moved(definition, workload)))
        with ThreadPoolExecutor(at_once + len(meanwhile)) as pool:
            aside = [pool.submit(task) for task in meanwhile]
            for start in range(0, len(solutions), at_once):
                some = solutions[start : start + at_once]
                verdicts = {pool.submit(self._examine, definition, workload, solution): solution for solution in some}
                for future in as_completed(verdicts):
                    yield verdicts[future], future.result()
            for task in aside:
                task.result()

    def _examine(self, definition: Definition, workload: Workload, solution: Solution) -> Verdict:
        try:
            worker = self._workers.find(definition, solution)
        except EvaluationFailedError as failure:
            return failure
        candidate = Candidate(solution, worker, TimeBudget(self._timeout_s))
        try:
            first = self._judge_client.call(workload, 0, worker, candidate.budget)
            candidate.first_call_ms = first.call_ms
            candidate.correctness = self._judge_client.judge(definition, workload, worker, first, candidate.budget)
        except EvaluationFailedError as failure:
            return failure.with_log(worker.process.take_log())
        return candidate
