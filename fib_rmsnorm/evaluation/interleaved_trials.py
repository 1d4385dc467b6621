"""Interleaved trials of all solutions on a Workload, until each median is known or the time is spent.

The order turns round from trial to trial (A B C, C B A), so that a drift of the machine hits all alike, and
its earlier and later trials lie apart: how much they differ says what a difference is worth.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count as count_up
from itertools import repeat, takewhile
from typing import Literal

from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.timing.latency_statistics import latency_interval, middle
from fib_rmsnorm.evaluation.worker.worker_messages import Costs, Done, Timed, TimingPrepared
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, WorkerClient
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.idle_check import wait_for_quiet
from fib_rmsnorm.schema import Correctness, Definition, Settings, Solution, Workload

INTERVAL_GOAL = 0.01
_CALLS = 40
_MOST_TRIALS = 24
_TRIAL_BUDGET_S = 0.15
_BUDGET_S = 0.5  # of trials, for each solution
_HOT_CALLS = 80
_QUICKLY_JUDGED_BYTES = 4 << 20


@dataclass
class Candidate:
    """A solution in the race, and what is found about it."""

    solution: Solution
    worker: WorkerClient
    budget: TimeBudget
    correctness: Correctness | None = None
    first_call_ms: float | None = None
    timer: str = ""
    tick_ms: float = 0.0
    trials: list[list[float]] = field(default_factory=list)
    """Spans in milliseconds, by trial."""
    busy_ms: list[float] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    spent_s: float = 0.0
    """Time that its trials took, all included."""
    repeated: list[str] = field(default_factory=list)
    """What went wrong with trials that were measured again."""
    hot_ms: list[float] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    """What else its calls cost, before its trials and after them."""
    operators: list[str] | None = None
    """Of torch, that its first call ran; None where nobody asks."""
    judged_trials: int = 0
    """Trials whose calls have been judged, that is, one of them."""
    stopped_by: Literal["interval", "budget", "iterations"] = "iterations"
    failure: EvaluationFailedError | None = None

    @property
    def samples(self) -> list[float]:
        """All timed spans in milliseconds."""
        return [sample for trial in self.trials for sample in trial]

    def knows_its_median(self) -> bool:
        """Whether the interval of the median is within the goal."""
        interval = latency_interval(self.trials, self.tick_ms)
        return interval.relative_to(middle(self.samples, self.tick_ms)) <= INTERVAL_GOAL

    def has_spent_its_time(self) -> bool:
        """Whether its trials have taken the budget, or are many enough."""
        return self.spent_s > _BUDGET_S or len(self.trials) >= _MOST_TRIALS


class InterleavedTrials:
    """Times entrants on one Workload; one that fails drops out with its failure."""

    def __init__(
        self, definition: Definition, workload: Workload, judge_client: JudgeClient, settings: Settings
    ) -> None:
        self._definition = definition
        self._workload = workload
        self._judge_client = judge_client
        self._settings = settings
        self._random = random.SystemRandom()

    def run(self, candidates: list[Candidate], *, unjudged: Candidate) -> None:
        """Time every entrant; `unjudged` is the reference, whose outputs nobody checks."""
        everyone = [unjudged, *candidates]
        self._attempt_all(everyone, self._prepare_timing)
        for candidate in candidates:
            self._attempt(candidate, self._count_costs)
        judged = self._choose_judged_trials()
        trial = 0
        while running := [e for e in candidates if e.failure is None and not self._is_done(e)]:
            if unjudged.failure is None and len(unjudged.trials) < self._settings.num_trials:
                running.insert(0, unjudged)  # only what others are compared with, and the slowest of all
            for candidate in running if trial % 2 == 0 else reversed(running):
                if candidate.timer == "cpu_clock":
                    wait_for_quiet([e.worker.process.pid for e in everyone if e is not candidate])
                self._attempt(candidate, self._run_trial)
                if candidate is not unjudged and trial in judged:
                    self._attempt(candidate, self._judge)
            trial += 1
        for candidate in candidates:
            if candidate.judged_trials < len(candidate.trials):
                self._attempt(candidate, self._judge)
            if self._settings.l2 == "both":
                self._attempt(candidate, self._time_hot)
            self._attempt(candidate, self._count_costs)
        self._attempt_all(everyone, self._end_timing)

    def _choose_judged_trials(self) -> set[int]:
        """After which trials one of the calls since the last such is judged; one of the calls that are left is, too.

        If that is quick: after each of the first trials, and whenever they have doubled; else after one of the first.
        """
        fewest = self._settings.num_trials
        if bytes_moved(self._definition, self._workload) > _QUICKLY_JUDGED_BYTES:
            return {self._random.randrange(fewest)}
        doubled = takewhile(lambda count: count < _MOST_TRIALS, (fewest << power for power in count_up(1)))
        return {*range(fewest), *(count - 1 for count in doubled)}

    def _attempt_all(self, candidates: list[Candidate], step: Callable[[Candidate], None]) -> None:
        """Side by side, since nothing is timed."""
        with ThreadPoolExecutor(len(candidates)) as pool:
            for _ in pool.map(self._attempt, candidates, repeat(step)):
                pass

    def _attempt(self, candidate: Candidate, step: Callable[[Candidate], None]) -> None:
        if candidate.failure is None:
            try:
                step(candidate)
            except EvaluationFailedError as failure:
                candidate.failure = failure

    def _is_done(self, candidate: Candidate) -> bool:
        settings = self._settings
        if settings.iterations is not None:
            candidate.stopped_by = "iterations"
            return len(candidate.trials) >= settings.num_trials
        enough = len(candidate.trials) >= settings.num_trials
        if enough and candidate.knows_its_median():
            candidate.stopped_by = "interval"
            return True
        if len(candidate.trials) >= 2 and candidate.has_spent_its_time():
            candidate.stopped_by = "budget"
            return True
        return False

    def _prepare_timing(self, candidate: Candidate) -> None:
        request = {
            "do": "prepare_timing",
            "workload": self._workload.model_dump(mode="json"),
            "warmup_runs": self._settings.warmup_runs,
            "budget_s": _TRIAL_BUDGET_S,
        }
        prepared = candidate.worker.ask(request, TimingPrepared, candidate.budget)
        candidate.timer, candidate.tick_ms, candidate.operators = prepared.timer, prepared.tick_ms, prepared.operators

    def _run_trial(self, candidate: Candidate) -> None:
        calls = self._settings.iterations or _CALLS
        started = time.monotonic()
        timed = self._time(candidate, calls, hot=self._settings.l2 == "hot")
        candidate.spent_s += time.monotonic() - started
        candidate.trials.append(timed.span_ms)
        candidate.busy_ms += timed.busy_ms
        candidate.pieces += timed.pieces
        candidate.repeated += timed.repeated

    def _time(self, candidate: Candidate, calls: int, *, hot: bool) -> Timed:
        fixed = self._settings.iterations is not None
        request = {
            "do": "time",
            "calls": calls,
            "budget_s": candidate.budget.left_s if fixed else _TRIAL_BUDGET_S,
            "cold": not hot,
        }
        started = time.perf_counter_ns()
        timed = candidate.worker.ask(request, Timed, candidate.budget)
        if not started <= timed.clock_ns <= time.perf_counter_ns():
            raise EvaluationFailedError(
                "RUNTIME_ERROR", "timing: the clock of the process does not tell the system's time"
            )
        return timed

    def _judge(self, candidate: Candidate) -> None:
        self._judge_client.judge_timed_call(self._definition, self._workload, candidate.worker, candidate.budget)
        candidate.judged_trials = len(candidate.trials)

    def _time_hot(self, candidate: Candidate) -> None:
        candidate.hot_ms = self._time(candidate, _HOT_CALLS, hot=True).span_ms

    def _count_costs(self, candidate: Candidate) -> None:
        candidate.costs.append(candidate.worker.ask({"do": "count_costs"}, Costs, candidate.budget))

    def _end_timing(self, candidate: Candidate) -> None:
        candidate.worker.ask({"do": "end_timing"}, Done, candidate.budget)
