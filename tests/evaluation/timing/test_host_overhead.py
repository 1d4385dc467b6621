"""The host's time to issue a call. These tests have no GPU; their calls only take time."""

import os
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.timing import cuda_events, host_overhead
from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.timer import Trial

PROCESSORS = sorted(os.sched_getaffinity(0))
FAST_S, SLOW_S = 20e-6, 200e-6
WAIT_S = 0.001


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

    assert host_overhead_us(call, int) == pytest.approx(FAST_S * 1e6)


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
    waited: list[None] = []

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

    with pytest.raises(error) if error else nullcontext():
        host_overhead_us(call, int)
    assert sorted(os.sched_getaffinity(0)) == PROCESSORS
    assert {processor for allowed in calls for processor in allowed} <= set(PROCESSORS)


def test_slow_calls_are_not_repeated_for_long(spend):
    """As many slow calls as fast ones would take seconds."""
    calls: list[None] = []

    def call() -> None:
        calls.append(None)
        spend(0.002)

    assert host_overhead_us(call, int) == pytest.approx(2000)
    assert len(calls) <= 300


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("queued", [False, True])
def test_events_enclose_the_call_alone_and_are_read_when_it_has_ended(monkeypatch, cold, queued):
    steps: list[str] = []

    def note(step: str):
        return lambda *_: steps.append(step)

    events = iter(("start", "end"))

    def make_event():
        name = next(events)
        return SimpleNamespace(record=note(name), elapsed_time=lambda _: steps.append("read") or 2.5)

    blocking = SimpleNamespace(hold=note("hold"), release=note("release"), require_in_time=note("check"))
    monkeypatch.setattr(cuda_events, "L2Eviction", lambda _: note("evict"))
    monkeypatch.setattr(cuda_events, "BlockingKernel", lambda: blocking)
    monkeypatch.setattr(cuda_events, "make_event", make_event)
    monkeypatch.setattr(torch.cuda, "synchronize", note("wait"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    (sample,) = CudaEvents("cuda:0").measure(lambda _: note("call"), Trial(1, cold=cold, budget_s=1, queued=queued))
    before = [*(["evict"] if cold else []), *(["hold"] if queued else [])]
    assert steps == [*before, "start", "call", "end", "release", "wait", *(["check"] if queued else []), "read"]
    assert sample.span_ms == 2.5


@pytest.mark.parametrize(
    ("cold", "queued", "expected"),
    [
        (True, False, ["evict", "wait"]),
        (False, False, ["wait", "fill", "wait"]),
        (True, True, ["evict", "hold", "follow"]),
        (False, True, ["wait", "fill", "hold", "follow"]),
    ],
)
def test_cuptis_marker_has_ended_or_holds_the_call_when_it_begins(monkeypatch, cold, queued, expected):
    steps: list[str] = []
    kinds = SimpleNamespace(CONCURRENT_KERNEL=1, MEMCPY=2, MEMSET=3)
    monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(cupti=SimpleNamespace(ActivityKind=kinds)))
    monkeypatch.delitem(sys.modules, "fib_rmsnorm.evaluation.timing.cupti", raising=False)
    from fib_rmsnorm.evaluation.timing.cupti import Cupti

    monkeypatch.delitem(sys.modules, "fib_rmsnorm.evaluation.timing.cupti")  # others get the real package, if any
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    current: Any = SimpleNamespace(wait_event=lambda _: steps.append("follow"))
    timer: Any = SimpleNamespace(
        _stream=None,
        _evict=lambda _: steps.append("evict"),
        _held=SimpleNamespace(record=lambda _: None),
        _synchronize=lambda: steps.append("wait"),
        _marker=SimpleNamespace(zero_=lambda: steps.append("fill")),
        _blocking_kernel=SimpleNamespace(hold=lambda _: steps.append("hold")),
    )
    Cupti._mark_start(timer, cold=cold, held=current if queued else None)
    assert steps == expected
