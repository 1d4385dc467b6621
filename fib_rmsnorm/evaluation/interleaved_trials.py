"""Time all solutions on a Workload in interleaved trials, until each median is precise or the time is spent.

The order is reversed from trial to trial (A B C, C B A), so that a drift of the machine affects all solutions alike.
The difference between the earlier and the later trials of one solution shows how far to trust one between solutions.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count as count_up
from itertools import repeat, takewhile
from typing import Literal, TypeVar

from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.timing.latency_statistics import ChainTimes, has_precise_cost, measure_calls
from fib_rmsnorm.evaluation.timing.timer import Trial
from fib_rmsnorm.evaluation.worker import worker_messages as messages
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.asking import Done
from fib_rmsnorm.sandbox.idle_check import wait_for_quiet
from fib_rmsnorm.schema import Definition, Settings, Workload

INTERVAL_GOAL = 0.01
# More calls in each would need fewer trials, but as much time (docs/appendix/measuring-evidence.md).
_CALLS = 20
_CALLS_ON_CPU = 40
_MAX_TRIALS = 24
_TRIAL_BUDGET_S = 0.15
_BUDGET_S = 0.5  # for the undisturbed calls of all trials of a solution
_MAX_BUDGET_S = 2.0  # for all of them
_HOT_CALLS = 80
_REPLAYS = 16
_MIN_TRIALS_IN_GRAPHS = 4
_QUICKLY_JUDGED_BYTES = 4 << 20
_JUDGED_TOGETHER = 4
"""The number of calls that are judged at a time, if judging is quick."""

StoppedBy = Literal["interval", "budget", "iterations"]
Turn = TypeVar("Turn")
Times = TypeVar("Times", messages.Timed, messages.ChainTimed)


@dataclass
class TrialResults:
    """The trials of a solution on a Workload, while they run and when they have ended."""

    admitted: Admitted
    prepared: messages.TimingPrepared = field(default_factory=lambda: messages.TimingPrepared("", 0.0, None))
    trials: list[messages.Timed] = field(default_factory=list)
    hot: messages.Timed | None = None
    """A trial with inputs and outputs in cache, if one was requested."""
    as_called: messages.Timed | None = None
    """A trial on an idle GPU, if a call takes several kernels."""
    costs: list[messages.Costs] = field(default_factory=list)
    """The costs before and after the trials."""
    stopped_by: StoppedBy = "iterations"
    chains: dict[bool, list[ChainTimes]] = field(default_factory=lambda: {False: [], True: []})
    """The trials in CUDA graphs, without and with programmatic dependent launch of producers and consumers."""
    chain_refused: str | None = None
    """Why the solution's calls cannot be captured."""
    failure: EvaluationFailedError | None = None

    spent_s: float = 0.0
    """The time that its trials took, including what is not timed."""
    undisturbed_s: float = 0.0
    """The share of that time in which its calls were undisturbed."""
    undisturbed_trials: float = 0.0
    """The number of its trials, of which each counts for the share of its calls that was undisturbed."""
    judged_trials: int = 0
    """The number of trials when one of the calls was last judged."""
    is_done: bool = False
    """Whether no other trial follows."""

    def attempt(self, step: "Callable[[TrialResults], object]") -> None:
        """Take a step, unless one has failed before."""
        if self.failure is None:
            try:
                step(self)
            except EvaluationFailedError as failure:
                self.failure = failure


class InterleavedTrials:
    """Times solutions on one Workload. One that fails drops out with its failure."""

    def __init__(
        self, definition: Definition, workload: Workload, judge_client: JudgeClient, settings: Settings, *, on_cpu: bool
    ) -> None:
        self._workload = workload
        self._judge_client = judge_client
        self._settings = settings
        self._on_cpu = on_cpu
        self._random = random.SystemRandom()
        self._is_quickly_judged = bytes_moved(definition, workload) <= _QUICKLY_JUDGED_BYTES
        """Whether judging a call takes far less time than a trial."""
        self._judged_calls = _JUDGED_TOGETHER if self._is_quickly_judged else 1

    def run(self, solutions: Sequence[TrialResults], reference: TrialResults) -> None:
        """Time every solution, and the reference, which is not judged."""

        def count_costs(solution: TrialResults) -> None:
            solution.costs.append(solution.admitted.worker.ask(messages.CountCosts(), messages.Costs))

        everyone = [reference, *solutions]
        _attempt_all(everyone, self._prepare_timing)
        for solution in solutions:
            solution.attempt(count_costs)
        # In parallel: the driver may be busy with processes that open the GPU.
        _attempt_all(everyone, lambda each: each.admitted.worker.ask(messages.AttachTimer(), Done))
        self._run_trials(solutions, reference)
        for solution in solutions:
            if self._settings.l2 == "both":
                solution.attempt(self._time_hot)
            solution.attempt(self._time_as_called)
            solution.attempt(count_costs)
        _attempt_all(everyone, lambda each: each.admitted.worker.ask(messages.EndTiming(), Done))

    def _run_trials(self, solutions: Sequence[TrialResults], unjudged: TrialResults) -> None:
        judged = self._choose_judged_trials()
        pids = [each.admitted.worker.process.pid for each in (unjudged, *solutions)]
        for trial, each in _take_turns(lambda: self._find_running(solutions, unjudged)):
            if self._on_cpu:
                wait_for_quiet([pid for pid in pids if pid != each.admitted.worker.process.pid])
            each.attempt(self._run_trial)
            if each is not unjudged:
                each.is_done = self._is_done(each)
                if each.is_done or self._is_to_be_judged(each, trial, judged):
                    # At once: the longer its outputs lie in the worker, the easier they are to repair.
                    each.attempt(lambda one: self._judge_calls_of(one, one.trials[one.judged_trials :]))
                    each.judged_trials = len(each.trials)

    def _find_running(self, solutions: Sequence[TrialResults], unjudged: TrialResults) -> list[TrialResults]:
        """The solutions to time once more; the reference, which is slow, only until it has enough trials."""
        running = [each for each in solutions if each.failure is None and not each.is_done]
        may_go_on = bool(running) or (unjudged.spent_s < _BUDGET_S and any(each.is_done for each in solutions))
        if may_go_on and unjudged.failure is None and not self._has_fewest_trials(unjudged):
            running.insert(0, unjudged)
        return running

    def _choose_judged_trials(self) -> set[int]:
        """The trials after which some of the calls since the last judged ones are judged, as after a solution's last.

        If judging is quick, these are the first trials, and those at which their number has doubled. If not, it is one
        of the first trials but the last, after which calls are judged anyway.
        """
        fewest = self._settings.num_trials
        if not self._is_quickly_judged:
            return {self._random.randrange(max(1, fewest - 1))}
        doubled = takewhile(lambda count: count < _MAX_TRIALS, (fewest << power for power in count_up(1)))
        return {*range(fewest), *(count - 1 for count in doubled)}

    def _is_to_be_judged(self, solution: TrialResults, trial: int, judged: set[int]) -> bool:
        if self._is_quickly_judged:
            return trial in judged
        if solution.judged_trials:
            return False
        # Whether one more trial, if it takes twice as long as these did, would use up the budget.
        is_nearly_spent = solution.spent_s * (len(solution.trials) + 2) > _BUDGET_S * len(solution.trials)
        return trial in judged or (self._settings.iterations is None and is_nearly_spent)

    def _has_fewest_trials(self, solution: TrialResults) -> bool:
        """Whether its undisturbed calls fill so many trials; without them, whether that takes too long."""
        fewest = self._settings.num_trials
        is_enough = solution.undisturbed_trials >= fewest or solution.spent_s > _MAX_BUDGET_S
        return len(solution.trials) >= fewest and (is_enough or self._settings.iterations is not None)

    def _is_done(self, solution: TrialResults) -> bool:
        if self._settings.iterations is not None:
            return self._has_fewest_trials(solution)
        if self._has_fewest_trials(solution):
            scatter = measure_calls([trial.samples for trial in solution.trials], solution.prepared.tick_ms)
            if scatter.interval.relative_to(scatter.latency_ms) <= INTERVAL_GOAL:
                solution.stopped_by = "interval"
                return True
        is_spent = solution.undisturbed_s > _BUDGET_S or solution.spent_s > _MAX_BUDGET_S
        if len(solution.trials) >= 2 and (is_spent or solution.undisturbed_trials >= _MAX_TRIALS):
            solution.stopped_by = "budget"
            return True
        return False

    def _prepare_timing(self, solution: TrialResults) -> None:
        request = messages.PrepareTiming(
            workload=self._workload,
            warmup_runs=self._settings.warmup_runs,
            budget_s=_TRIAL_BUDGET_S,
            judged_calls=self._judged_calls,
        )
        solution.prepared = solution.admitted.worker.ask(request, messages.TimingPrepared)

    def _run_trial(self, solution: TrialResults) -> None:
        calls = self._settings.iterations or (_CALLS_ON_CPU if self._on_cpu else _CALLS)
        started = time.monotonic()
        trial = self._time(solution, calls, hot=self._settings.l2 == "hot")
        seconds = time.monotonic() - started
        share = sum(not sample.is_disturbed for sample in trial.samples) / len(trial.samples)
        solution.trials.append(trial)
        solution.spent_s += seconds
        solution.undisturbed_s += seconds * share
        solution.undisturbed_trials += share

    def _time(self, solution: TrialResults, calls: int, *, hot: bool, queued: bool = True) -> messages.Timed:
        is_fixed = self._settings.iterations is not None
        worker = solution.admitted.worker
        budget_s = worker.left_s if is_fixed else _TRIAL_BUDGET_S
        return _ask_for_times(worker, messages.Time(trial=Trial(calls, not hot, budget_s, queued)), messages.Timed)

    def _judge_calls_of(self, solution: TrialResults, trials: Sequence[messages.Timed]) -> None:
        admitted = solution.admitted
        count = min(sum(len(trial.samples) for trial in trials), self._judged_calls)
        self._judge_client.judge_timed_calls(self._workload, admitted.worker, count)

    def _time_hot(self, solution: TrialResults) -> None:
        solution.hot = self._time(solution, _HOT_CALLS, hot=True)
        self._judge_calls_of(solution, [solution.hot])

    def _time_as_called(self, solution: TrialResults) -> None:
        last = solution.trials[-1]
        if last.queued and max(sample.pieces for sample in last.samples) > 1:
            solution.as_called = self._time(solution, _CALLS, hot=self._settings.l2 == "hot", queued=False)
            self._judge_calls_of(solution, [solution.as_called])

    def run_in_graphs(self, solutions: Sequence[TrialResults], *, dependent: bool) -> None:
        """Time every solution in CUDA graphs, with `dependent` launch or not, after `run`; judge calls of these."""
        judged = set(range(_MAX_TRIALS)) if self._is_quickly_judged else {self._random.randrange(_MIN_TRIALS_IN_GRAPHS)}
        request = messages.TimeChain(
            workload=self._workload, dependent=dependent, replays=_REPLAYS, budget_s=_TRIAL_BUDGET_S
        )

        def is_done(solution: TrialResults) -> bool:
            """Whether the cost is known, or will not be."""
            trials = solution.chains[dependent]
            if solution.chain_refused or solution.failure or len(trials) >= _MAX_TRIALS:
                return True
            return len(trials) >= _MIN_TRIALS_IN_GRAPHS and has_precise_cost(trials)

        def run_trial(solution: TrialResults, *, is_judged: bool) -> None:
            worker = solution.admitted.worker
            timed = _ask_for_times(worker, request, messages.ChainTimed)
            if timed.times is None:
                solution.chain_refused = timed.refused or "no reason given"
                worker.process.kill()  # a capture that failed may leave torch's allocator in the midst of it
                return
            solution.chains[dependent].append(timed.times)
            if is_judged:
                self._judge_client.judge_chained_call(self._workload, worker)

        for trial, each in _take_turns(lambda: [solution for solution in solutions if not is_done(solution)]):
            each.attempt(partial(run_trial, is_judged=trial in judged))


def _take_turns(find_running: Callable[[], Sequence[Turn]]) -> Iterator[tuple[int, Turn]]:
    """Yield the number of the trial and the next one to time, until none is left; the order reverses each trial."""
    for trial in count_up():
        running = find_running()
        if not running:
            return
        for each in running if trial % 2 == 0 else reversed(running):
            yield trial, each


def _ask_for_times(worker: WorkerClient, request: messages.Time | messages.TimeChain, kind: type[Times]) -> Times:
    """Have a worker time a trial. Raises EvaluationFailedError too if the clock that it read is not the system's."""
    started = time.perf_counter_ns()
    timed = worker.ask(request, kind)
    if not started <= timed.clock_ns <= time.perf_counter_ns():
        why = "timing: the worker's clock differs from the system's"
        raise EvaluationFailedError("RUNTIME_ERROR", why, is_cheat=True)
    return timed


def _attempt_all(solutions: Sequence[TrialResults], step: Callable[[TrialResults], object]) -> None:
    """Take a step with all solutions in parallel, because nothing is being timed."""
    with ThreadPoolExecutor(len(solutions)) as pool:
        for _ in pool.map(TrialResults.attempt, solutions, repeat(step)):
            pass
