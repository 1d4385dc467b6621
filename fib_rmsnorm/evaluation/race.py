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

from fib_rmsnorm.evaluation.answers import Costs, Done, Staged, Timed
from fib_rmsnorm.evaluation.court import Court
from fib_rmsnorm.evaluation.statistics import latency_interval, middle
from fib_rmsnorm.evaluation.strays import wait_for_quiet
from fib_rmsnorm.evaluation.workers import Allowance, FailedError, Worker
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import Correctness, Definition, Settings, Solution, Workload

INTERVAL_GOAL = 0.01
_CALLS = 40
_MOST_TRIALS = 24
_TRIAL_BUDGET_S = 0.15
_BUDGET_S = 0.5  # of trials, for each solution
_HOT_CALLS = 80
_QUICKLY_JUDGED_BYTES = 4 << 20


@dataclass
class Entrant:
    """A solution in the race, and what is found about it."""

    solution: Solution
    worker: Worker
    allowance: Allowance
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
    failure: FailedError | None = None

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


class Race:
    """Times entrants on one Workload; one that fails drops out with its failure."""

    def __init__(self, definition: Definition, workload: Workload, court: Court, settings: Settings) -> None:
        self._definition = definition
        self._workload = workload
        self._court = court
        self._settings = settings
        self._random = random.SystemRandom()

    def run(self, entrants: list[Entrant], *, unjudged: Entrant) -> None:
        """Time every entrant; `unjudged` is the reference, whose outputs nobody checks."""
        everyone = [unjudged, *entrants]
        self._attempt_all(everyone, self._set_stage)
        for entrant in entrants:
            self._attempt(entrant, self._count_costs)
        judged = self._choose_judged_trials()
        trial = 0
        while running := [e for e in entrants if e.failure is None and not self._is_done(e)]:
            if unjudged.failure is None and len(unjudged.trials) < self._settings.num_trials:
                running.insert(0, unjudged)  # only what others are compared with, and the slowest of all
            for entrant in running if trial % 2 == 0 else reversed(running):
                if entrant.timer == "cpu_clock":
                    wait_for_quiet([e.worker.process.pid for e in everyone if e is not entrant])
                self._attempt(entrant, self._run_trial)
                if entrant is not unjudged and trial in judged:
                    self._attempt(entrant, self._judge)
            trial += 1
        for entrant in entrants:
            if entrant.judged_trials < len(entrant.trials):
                self._attempt(entrant, self._judge)
            if self._settings.l2 == "both":
                self._attempt(entrant, self._time_hot)
            self._attempt(entrant, self._count_costs)
        self._attempt_all(everyone, self._strike_stage)

    def _choose_judged_trials(self) -> set[int]:
        """After which trials one of the calls since the last such is judged; one of the calls that are left is, too.

        If that is quick: after each of the first trials, and whenever they have doubled; else after one of the first.
        """
        fewest = self._settings.num_trials
        if bytes_moved(self._definition, self._workload) > _QUICKLY_JUDGED_BYTES:
            return {self._random.randrange(fewest)}
        doubled = takewhile(lambda count: count < _MOST_TRIALS, (fewest << power for power in count_up(1)))
        return {*range(fewest), *(count - 1 for count in doubled)}

    def _attempt_all(self, entrants: list[Entrant], step: Callable[[Entrant], None]) -> None:
        """Side by side, since nothing is timed."""
        with ThreadPoolExecutor(len(entrants)) as pool:
            for _ in pool.map(self._attempt, entrants, repeat(step)):
                pass

    def _attempt(self, entrant: Entrant, step: Callable[[Entrant], None]) -> None:
        if entrant.failure is None:
            try:
                step(entrant)
            except FailedError as failure:
                entrant.failure = failure

    def _is_done(self, entrant: Entrant) -> bool:
        settings = self._settings
        if settings.iterations is not None:
            entrant.stopped_by = "iterations"
            return len(entrant.trials) >= settings.num_trials
        enough = len(entrant.trials) >= settings.num_trials
        if enough and entrant.knows_its_median():
            entrant.stopped_by = "interval"
            return True
        if len(entrant.trials) >= 2 and entrant.has_spent_its_time():
            entrant.stopped_by = "budget"
            return True
        return False

    def _set_stage(self, entrant: Entrant) -> None:
        request = {
            "do": "set_stage",
            "workload": self._workload.model_dump(mode="json"),
            "warmup_runs": self._settings.warmup_runs,
            "budget_s": _TRIAL_BUDGET_S,
        }
        staged = entrant.worker.ask(request, Staged, entrant.allowance)
        entrant.timer, entrant.tick_ms, entrant.operators = staged.timer, staged.tick_ms, staged.operators

    def _run_trial(self, entrant: Entrant) -> None:
        calls = self._settings.iterations or _CALLS
        started = time.monotonic()
        timed = self._time(entrant, calls, hot=self._settings.l2 == "hot")
        entrant.spent_s += time.monotonic() - started
        entrant.trials.append(timed.span_ms)
        entrant.busy_ms += timed.busy_ms
        entrant.pieces += timed.pieces
        entrant.repeated += timed.repeated

    def _time(self, entrant: Entrant, calls: int, *, hot: bool) -> Timed:
        fixed = self._settings.iterations is not None
        request = {
            "do": "time",
            "calls": calls,
            "budget_s": entrant.allowance.left_s if fixed else _TRIAL_BUDGET_S,
            "cold": not hot,
        }
        started = time.perf_counter_ns()
        timed = entrant.worker.ask(request, Timed, entrant.allowance)
        if not started <= timed.clock_ns <= time.perf_counter_ns():
            raise FailedError("RUNTIME_ERROR", "timing: the clock of the process does not tell the system's time")
        return timed

    def _judge(self, entrant: Entrant) -> None:
        self._court.judge_timed_call(self._definition, self._workload, entrant.worker, entrant.allowance)
        entrant.judged_trials = len(entrant.trials)

    def _time_hot(self, entrant: Entrant) -> None:
        entrant.hot_ms = self._time(entrant, _HOT_CALLS, hot=True).span_ms

    def _count_costs(self, entrant: Entrant) -> None:
        entrant.costs.append(entrant.worker.ask({"do": "count_costs"}, Costs, entrant.allowance))

    def _strike_stage(self, entrant: Entrant) -> None:
        entrant.worker.ask({"do": "strike_stage"}, Done, entrant.allowance)
