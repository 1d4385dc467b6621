"""The order in which Solutions are timed, who must be quiet meanwhile, and how many timed calls are judged."""

from types import SimpleNamespace
from typing import Any

import pytest

from fib_rmsnorm.evaluation import interleaved_trials
from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.interleaved_trials import InterleavedTrials, TrialResults
from fib_rmsnorm.evaluation.timing.timer import Sample, Trial
from fib_rmsnorm.evaluation.worker.worker_messages import Costs, CountCosts, PrepareTiming, Time, Timed, TimingPrepared
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Settings

SMALL, LARGE = 1, 4096
DEFINITION = RmsNorm().define(1024)


@pytest.fixture(autouse=True)
def only_trials_take_time(clock, monkeypatch):
    monkeypatch.setattr(interleaved_trials, "time", clock)
    monkeypatch.setattr(Worker, "clock", clock)


class Worker:
    """Answers like a worker whose trials take some time, and counts the calls that the judge asks for."""

    clock: Any = None

    def __init__(
        self,
        trial_s: float = 0.001,
        calls: int = 40,
        spread: float = 0.0,
        pieces: int = 1,
        undisturbed: float = 1.0,
        name: str = "slow",
        steps: list | None = None,
    ) -> None:
        self._trial_s = trial_s
        self._samples = [
            Sample(1 + spread * (number % 2), 1, pieces, is_disturbed=number >= undisturbed * calls)
            for number in range(calls)
        ]
        self.judged = 0
        self.asked: list[Trial] = []
        self.name = name
        self.process, self.left_s = SimpleNamespace(pid=name), 60.0
        self._steps = [] if steps is None else steps

    def ask(self, request, *_):
        if isinstance(request, PrepareTiming):
            return TimingPrepared(timer="cupti", tick_ms=0.0, operators=None)
        if isinstance(request, CountCosts):
            return Costs(None, 0)
        if isinstance(request, Time):
            self._steps.append(self.name)
            self.clock.sleep(self._trial_s)
            self.asked.append(request.trial)
            return Timed(self._samples, self.clock.perf_counter_ns(), repeated=[], queued=request.trial.queued)
        return None


class JudgeClient:
    def __init__(self, steps: list | None = None) -> None:
        self._steps = [] if steps is None else steps

    def judge_timed_calls(self, _workload, worker, count):
        self._steps.append(("judge", worker.name))
        worker.judged += count


def run_trials(reference, *workers, batch=SMALL, settings=None, on_cpu=False, judge=None):
    """The results of Solutions that are timed beside the reference."""
    (workload,) = generate_workloads(DEFINITION, [batch])
    trials = InterleavedTrials(DEFINITION, workload, judge or JudgeClient(), settings or Settings(), on_cpu=on_cpu)
    first, *others = (TrialResults(Admitted(SimpleNamespace(name=each.name), each)) for each in (reference, *workers))
    trials.run(others, first)
    return others


def time_alone(batch: int, trial_s: float, *, calls: int, spread: float = 1.0, l2="cold") -> Worker:
    """The worker of a Solution that is timed alone, whose median is precise after the first trials if `spread` is 0."""
    worker, reference = Worker(trial_s, calls, spread), Worker(trial_s, calls, spread)
    run_trials(reference, worker, batch=batch, settings=Settings(l2=l2))
    assert reference.judged == 0
    return worker


@pytest.mark.parametrize(
    ("batch", "trial_s", "calls", "spread", "judged"),
    [
        *((LARGE, trial_s, 8, spread, 2) for trial_s in (0.001, 0.1, 0.13, 0.17, 0.26, 0.6) for spread in (0.0, 1.0)),
        *((SMALL, *each) for each in ((0.001, 40, 0.0, 16), (0.17, 8, 0.0, 12), (0.26, 4, 0.0, 8), (0.6, 1, 0.0, 2))),
    ],
)
def test_few_calls_are_judged_however_long_they_take(batch, trial_s, calls, spread, judged):
    """Two of a large Workload, and of a small one four of each of the first trials."""
    assert {time_alone(batch, trial_s, calls=calls, spread=spread).judged for _ in range(5)} == {judged}


@pytest.mark.parametrize(("batch", "of_trials", "of_hot"), [(SMALL, 16, 4), (LARGE, 2, 1)])
@pytest.mark.parametrize(("l2", "cold"), [("cold", [True] * 4), ("hot", [False] * 4), ("both", [True] * 4 + [False])])
def test_l2_is_cold_unless_another_state_is_asked_for(l2, cold, batch, of_trials, of_hot):
    worker = time_alone(batch, 0.001, calls=40, spread=0.0, l2=l2)
    assert [request.cold for request in worker.asked] == cold
    assert worker.judged == of_trials + (of_hot if l2 == "both" else 0)


@pytest.mark.parametrize("batch", [SMALL, LARGE])
def test_calls_are_judged_before_another_solution_is_timed(batch):
    """The outputs of a call that waits to be judged lie in its worker, where a sleeping thread could repair them."""
    steps: list = []
    # The median of one is precise at once, that of another never.
    reference, *workers = (
        Worker(spread=spread, name=name, steps=steps) for name, spread in (("reference", 0), ("a", 0), ("b", 1))
    )
    run_trials(reference, *workers, batch=batch, judge=JudgeClient(steps))
    for name in ("a", "b"):
        own = [number for number, step in enumerate(steps) if step == ("judge", name)]
        assert own and all(steps[number - 1] == name for number in own)
        assert [step for step in steps if step in (name, ("judge", name))][-1] == ("judge", name)


NAMES = ("reference", "a", "b")


def steps_of(monkeypatch, *, on_cpu: bool) -> list[str | set[str]]:
    """Who is timed, and before it who is waited for, until each was timed four times."""
    steps: list = []
    monkeypatch.setattr(interleaved_trials, "wait_for_quiet", lambda pids: steps.append({*pids}))
    workers = [Worker(name=name, steps=steps) for name in NAMES]
    run_trials(*workers, settings=Settings(iterations=40, num_trials=4), on_cpu=on_cpu)
    return steps


@pytest.mark.parametrize("on_cpu", [False, True])
def test_the_order_turns_from_trial_to_trial(monkeypatch, on_cpu):
    """A drift of the machine affects all alike then."""
    timed = [step for step in steps_of(monkeypatch, on_cpu=on_cpu) if isinstance(step, str)]
    assert timed == [*NAMES, *reversed(NAMES)] * 2


def test_on_a_cpu_nobody_is_timed_before_all_others_are_quiet(monkeypatch):
    steps = steps_of(monkeypatch, on_cpu=True)
    assert len(steps) == 24
    for quiet, timed in zip(steps[::2], steps[1::2], strict=True):
        assert quiet == {*NAMES} - {timed}
    assert all(isinstance(step, str) for step in steps_of(monkeypatch, on_cpu=False))  # a GPU has a clock of its own


@pytest.mark.parametrize("pieces", [1, 3])
def test_calls_of_several_kernels_are_also_timed_on_an_idle_gpu_and_judged(pieces):
    worker, reference = (Worker(calls=8, pieces=pieces) for _ in range(2))
    [found] = run_trials(reference, worker, batch=LARGE)
    idle = [request for request in worker.asked if not request.queued]
    assert len(idle) == (pieces > 1) and (found.as_called is not None) == (pieces > 1)
    assert worker.judged == 2 + (pieces > 1)
    assert all(request.queued for request in reference.asked)


@pytest.mark.parametrize(
    ("shares", "options", "trials", "stopped_by"),
    [
        *(((share, 1.0), {}, [count, 4], "budget") for share, count in ((1.0, 24), (0.5, 48), (0.25, 96))),
        *(((share, 1.0), {}, [129, 4], "budget") for share in (0.05, 0.0)),  # 2 s at most
        ((0.5, 1.0), {"spread": 0.0}, [8, 4], "interval"),
        ((1.0, 1.0), {"trial_s": 0.13}, [4, 4], "budget"),  # only undisturbed calls use it up
        ((0.5, 1.0), {"trial_s": 0.13}, [8, 4], "budget"),
        ((1.0, 1.0), {"spread": 0.0}, [4, 4], "interval"),
        ((1.0, 0.5), {"spread": 0.0}, [4, 8], "interval"),  # the reference goes on for its own
        ((1.0, 0.0), {"spread": 0.0}, [4, 32], "interval"),  # for 0.5 s
        ((0.0, 0.0), {}, [4, 4], "iterations"),
    ],
)
def test_trials_go_on_until_undisturbed_calls_fill_them_or_it_takes_too_long(
    monkeypatch, shares, options, trials, stopped_by
):
    """`shares` of the calls of a Solution and of the reference are undisturbed."""
    settings = Settings(iterations=40, num_trials=4) if stopped_by == "iterations" else None
    monkeypatch.setattr(interleaved_trials, "wait_for_quiet", lambda _: None)
    own, reference = (Worker(**{"trial_s": 1 / 64, "spread": 1.0, **options}, undisturbed=share) for share in shares)
    (outcome,) = run_trials(reference, own, settings=settings, on_cpu=True)
    assert ([len(each.asked) for each in (own, reference)], outcome.stopped_by) == (trials, stopped_by)
