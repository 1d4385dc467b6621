"""Time all solutions on a Workload in CUDA graphs, in interleaved trials, and judge calls of these graphs."""

import random
from collections.abc import Sequence
from functools import partial

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults, ask_for_times, is_quickly_judged, take_turns
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.timing.latency_statistics import has_precise_cost
from fib_rmsnorm.evaluation.worker.worker_messages import ChainTimed, TimeChain
from fib_rmsnorm.schema import Definition, Workload

_REPLAYS = 16
_TRIAL_BUDGET_S = 0.15
_MIN_TRIALS = 4
_MAX_TRIALS = 24


def time_chains(
    definition: Definition,
    workload: Workload,
    solutions: Sequence[TrialResults],
    judge_client: JudgeClient,
    *,
    dependent: bool,
) -> None:
    """Time every solution, `dependent` launch or not of producers and consumers. Their isolated timing has ended."""
    judged = set(range(_MAX_TRIALS))
    if not is_quickly_judged(definition, workload):
        judged = {random.SystemRandom().randrange(_MIN_TRIALS)}
    request = TimeChain(workload=workload, dependent=dependent, replays=_REPLAYS, budget_s=_TRIAL_BUDGET_S)

    def is_done(solution: TrialResults) -> bool:
        """Whether the cost is known, or will not be."""
        trials = solution.chains[dependent]
        if solution.chain_refused or solution.failure or len(trials) >= _MAX_TRIALS:
            return True
        return len(trials) >= _MIN_TRIALS and has_precise_cost(trials)

    def run_trial(solution: TrialResults, *, is_judged: bool) -> None:
        worker = solution.admitted.worker
        timed = ask_for_times(worker, request, ChainTimed)
        if timed.times is None:
            solution.chain_refused = timed.refused or "no reason given"
            worker.process.kill()  # a capture that failed may leave torch's allocator in the midst of it
            return
        solution.chains[dependent].append(timed.times)
        if is_judged:
            judge_client.judge_chained_call(workload, worker)

    for trial, each in take_turns(lambda: [solution for solution in solutions if not is_done(solution)]):
        each.attempt(partial(run_trial, is_judged=trial in judged))
