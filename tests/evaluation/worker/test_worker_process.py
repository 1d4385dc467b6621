"""A trial whose measurement fails is repeated, and the answer says so."""

from __future__ import annotations

import os

import pytest

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, MeasurementError
from fib_rmsnorm.evaluation.worker import worker_process as worker_module
from fib_rmsnorm.evaluation.worker.worker_messages import Build, Prepare, PrepareTiming, Time
from fib_rmsnorm.sandbox.channel import RefusalError
from support.registries import RIGHT, add_kernel

CALLS = 5


class LosesRecords:
    """A timer that loses the records of its first measurements."""

    name, tick_ms = CpuClock.name, CpuClock.tick_ms

    def __init__(self, failures: int) -> None:
        self._clock = CpuClock()
        self.failures_left = failures

    def measure(self, *arguments, **options):
        samples = self._clock.measure(*arguments, **options)
        if self.failures_left:
            self.failures_left -= 1
            raise MeasurementError("lost a record", len(samples))
        return samples


def make_worker(registry, monkeypatch, failures, judged_calls=1):
    solution = add_kernel(registry, "right", RIGHT)
    definition = registry.definition(solution.definition)
    monkeypatch.setattr(worker_module, "choose_timer", lambda _: LosesRecords(failures))
    worker = worker_module.Worker(None, os.memfd_create("outputs"))
    build = Build(definition=definition, solution=solution, device="cpu", dataset=None, cache=cache_folder())
    worker.build(build.model_dump(mode="json"))
    workload = registry.workloads(definition.name)[0]
    request = PrepareTiming(workload=workload, warmup_runs=1, budget_s=1.0, judged_calls=judged_calls)
    worker.prepare_timing(request.model_dump(mode="json"))
    return worker


def test_a_solution_is_prepared_once_while_the_device_is_opened(registry, monkeypatch):
    prepared = []
    prepare = worker_module.prepare_build
    monkeypatch.setattr(worker_module, "prepare_build", lambda *given: prepared.append(given) or prepare(*given))
    solution = add_kernel(registry, "right", RIGHT)
    worker = worker_module.Worker(None, os.memfd_create("outputs"))
    opening = Prepare(device="cuda:99", solution=solution, cache=cache_folder())
    assert worker.open_device(opening.model_dump(mode="json")).fault
    definition = registry.definition(solution.definition)
    build = Build(definition=definition, solution=solution, device="cpu", dataset=None, cache=cache_folder())
    worker.build(build.model_dump(mode="json"))
    worker.check()
    assert len(prepared) == 1


REQUEST = Time(calls=CALLS, cold=True, budget_s=60.0).model_dump()


@pytest.mark.parametrize("failures", range(MAX_ATTEMPTS))
def test_a_failed_trial_is_measured_again_and_reported(registry, monkeypatch, failures):
    worker = make_worker(registry, monkeypatch, failures)
    answer = worker.time(REQUEST)
    assert len(answer.span_ms) == CALLS
    assert answer.repeated == ["lost a record"] * failures
    assert worker.time(REQUEST).repeated == []
    assert worker.reveal({}).numbers  # the calls of a lost trial can be judged too


@pytest.mark.parametrize("judged_calls", [1, 2, CALLS, CALLS + 1])
def test_several_calls_are_chosen_to_be_judged(registry, monkeypatch, judged_calls):
    worker = make_worker(registry, monkeypatch, 0, judged_calls)
    for _ in range(2):
        worker.time(REQUEST)
        revealed = worker.reveal({}).numbers
        assert len(set(revealed)) == len(revealed) == min(judged_calls, CALLS)
        with pytest.raises(RefusalError, match="0 of 0 timed calls were seen"):
            worker.reveal({})


def test_what_is_written_to_an_output_too_early_is_erased(registry, monkeypatch):
    calls = make_worker(registry, monkeypatch, 0)._timing
    for buffers in calls._ring:
        buffers.tensors[0].zero_()
    for _ in calls._ring.copy():
        calls.prepare()
        assert calls.buffers.tensors[0].isnan().all()


def test_a_trial_that_fails_three_times_is_a_failure(registry, monkeypatch):
    worker = make_worker(registry, monkeypatch, MAX_ATTEMPTS)
    with pytest.raises(RefusalError, match="lost a record, in 3 trials in a row"):
        worker.time(REQUEST)
