"""What a timer does around a call on a GPU; a GPU itself shows it in test_gpu_timers.py and test_l2.py."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from fib_rmsnorm.evaluation.timing import cuda_driver, cuda_events
from fib_rmsnorm.evaluation.timing.cuda_driver import L2Eviction
from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents

L2_BYTES = 4 << 20


def driver(steps: list[str]) -> SimpleNamespace:
    """One that notes what it is asked for, and does it."""
    return SimpleNamespace(
        cuCtxSynchronize=lambda: steps.append("wait") or 0,
        cuCtxResetPersistingL2Cache=lambda: steps.append("reset") or 0,
    )


def test_l2_is_evicted_by_reading_twice_its_size_when_the_device_is_idle(monkeypatch):
    steps: list[str] = []
    properties = SimpleNamespace(L2_cache_size=L2_BYTES, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(cuda_driver, "load_driver", lambda: driver(steps))
    evict = L2Eviction("cpu")
    assert evict._buffer.nbytes == 2 * L2_BYTES
    evict._buffer[-1] = 7  # what is read last
    evict()
    assert evict._sink.item() == 7 and steps == ["wait", "reset"]


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
    (sample,) = CudaEvents("cuda:0").measure(lambda _: note("call"), 1, cold=cold, budget_s=1, queued=queued)
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
    current = SimpleNamespace(wait_stream=lambda _: steps.append("follow"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
    timer = SimpleNamespace(
        _stream=None,
        _evict=lambda: steps.append("evict"),
        _synchronize=lambda: steps.append("wait"),
        _marker=SimpleNamespace(zero_=lambda: steps.append("fill")),
        _blocking_kernel=SimpleNamespace(hold=lambda _: steps.append("hold")),
    )
    Cupti._mark_start(timer, cold=cold, queued=queued)
    assert steps == expected
