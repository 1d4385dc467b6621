"""The host's time to issue a call. These tests have no GPU; their calls only take time."""

from __future__ import annotations

import os

import pytest

from fib_rmsnorm.evaluation.timing import host_overhead
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us

PROCESSORS = sorted(os.sched_getaffinity(0))
FAST_S, SLOW_S = 20e-6, 200e-6
WAIT_S = 0.001


def nothing_to_wait_for() -> None:
    pass


@pytest.fixture
def spend(clock, monkeypatch):
    """Take seconds of a clock that nothing else moves."""
    monkeypatch.setattr(host_overhead, "perf_counter", clock.perf_counter)
    return clock.sleep


@pytest.mark.skipif(len(PROCESSORS) < 2, reason="needs two processors")
@pytest.mark.parametrize("fast", PROCESSORS[:2])
def test_a_slow_processor_does_not_count(spend, fast, monkeypatch):
    monkeypatch.setattr(host_overhead, "_BUDGET_S", float("inf"))  # of many processors it tries some, at random

    def call() -> None:
        spend(FAST_S if os.sched_getaffinity(0) == {fast} else SLOW_S)

    assert host_overhead_us(call, nothing_to_wait_for) == pytest.approx(FAST_S * 1e6)


def test_waiting_for_the_gpu_does_not_count(spend):
    """Nor are more calls in its queue than it has room for."""
    queued = [0]

    def call() -> None:
        spend(FAST_S)
        queued[-1] += 1

    def wait() -> None:
        spend(WAIT_S)
        queued.append(0)

    assert host_overhead_us(call, wait) == pytest.approx(FAST_S * 1e6)
    assert 11 <= max(queued) <= 51 and queued[-1] == 0


def test_the_first_call_after_a_wait_does_not_count(spend):
    waited = []

    def wait() -> None:
        waited.append(None)

    def call() -> None:
        spend(FAST_S)
        if waited:
            waited.clear()
            spend(WAIT_S)

    assert host_overhead_us(call, wait) == pytest.approx(FAST_S * 1e6)


@pytest.mark.parametrize("error", [None, RuntimeError])
def test_the_affinity_of_the_thread_is_restored(error):
    calls = []

    def call() -> None:
        calls.append(os.sched_getaffinity(0))
        if error is not None and len(calls[-1]) == 1:
            raise error

    if error is None or len(PROCESSORS) == 1:
        host_overhead_us(call, nothing_to_wait_for)
    else:
        with pytest.raises(error):
            host_overhead_us(call, nothing_to_wait_for)
    assert sorted(os.sched_getaffinity(0)) == PROCESSORS
    assert {processor for allowed in calls for processor in allowed} <= set(PROCESSORS)


def test_slow_calls_are_not_repeated_for_long(spend):
    """As many slow calls as fast ones would take seconds."""
    calls = []

    def call() -> None:
        calls.append(None)
        spend(0.002)

    assert host_overhead_us(call, nothing_to_wait_for) == pytest.approx(2000)
    assert len(calls) <= 300
