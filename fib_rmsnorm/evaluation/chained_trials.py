"""Time all solutions on a Workload in CUDA graphs, in interleaved trials, and judge calls of these graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.interleaved_trials import ask_for_times, is_quickly_judged, take_turns
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.timing.latency_statistics import ChainTimes, has_precise_cost
from fib_rmsnorm.evaluation.worker.worker_messages import ChainTimed, TimeChain
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError
from fib_rmsnorm.schema import Definition, Workload

_REPLAYS = 16
_TRIAL_BUDGET_S = 0.15
_MIN_TRIALS = 4
_MAX_TRIALS = 24


@dataclass
class ChainResults:
    """The trials of a solution in CUDA graphs."""

    trials: dict[bool, list[ChainTimes]] = field(default_factory=lambda: {False: [], True: []})
    """The trials without and with programmatic dependent launch of producers and consumers."""
    refused: str | None = None
    """Why the solution's calls cannot be captured."""
    failure: EvaluationFailedError | None = None

    def is_done(self, *, dependent: bool) -> bool:
        """Whether the cost is known, or will not be."""
        trials = self.trials[dependent]
        if self.refused or self.failure or len(trials) >= _MAX_TRIALS:
            return True
        return len(trials) >= _MIN_TRIALS and has_precise_cost(trials)


class ChainedTrials:
    """Times solutions in CUDA graphs on one Workload. Their isolated timing has ended."""

    def __init__(self, definition: Definition, workload: Workload, judge_client: JudgeClient) -> None:
        self._definition = definition
        self._workload = workload
        self._judge_client = judge_client
        self._random = random.SystemRandom()

    def run(self, admitted: Sequence[Admitted], *, dependent: bool) -> list[ChainResults | EvaluationFailedError]:
        """Time every solution, also by `dependent` launch if the device has it. Return the outcomes in order."""
        solutions = [(each, ChainResults()) for each in admitted]
        for kind in (False, True) if dependent else (False,):
            self._run_trials(solutions, dependent=kind)
        return [results.failure or results for _, results in solutions]

    def _run_trials(self, solutions: Sequence[tuple[Admitted, ChainResults]], *, dependent: bool) -> None:
        judged = set(range(_MAX_TRIALS))
        if not is_quickly_judged(self._definition, self._workload):
            judged = {self._random.randrange(_MIN_TRIALS)}
        for trial, each in take_turns(lambda: [one for one in solutions if not one[1].is_done(dependent=dependent)]):
            try:
                self._run_trial(*each, dependent=dependent, is_judged=trial in judged)
            except EvaluationFailedError as failure:  # noqa: PERF203 - the others go on
                each[1].failure = failure

    def _run_trial(self, admitted: Admitted, results: ChainResults, *, dependent: bool, is_judged: bool) -> None:
        request = TimeChain(workload=self._workload, dependent=dependent, replays=_REPLAYS, budget_s=_TRIAL_BUDGET_S)
        timed = ask_for_times(admitted, request, ChainTimed)
        if timed.times is None:
            results.refused = timed.refused or "no reason given"
            admitted.worker.process.kill()  # a capture that failed may leave torch's allocator in the midst of it
            return
        results.trials[dependent].append(timed.times)
        if is_judged:
            self._judge_client.judge_chained_call(self._workload, admitted.worker)
