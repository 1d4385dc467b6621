"""What a call costs the host, on a GPU that does the work later.

On a cloud's virtual processors calls take 1.3 to 1.4 times as long for seconds at a time, each processor at times of
its own: as if the core's other hardware thread, which the system is not shown, were let to somebody else
(docs/measuring.md, "Host time").
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import torch

from fib_rmsnorm.evaluation.timing.timer import Call

_MEAN_S = 1e-3
_FEWEST_CALLS = 20
_MOST_CALLS = 50  # far fewer than a stream can hold, or issuing would wait for the GPU
_MEANS = 3  # on each processor: one that was idle takes a while to get up to speed
_MOST_PROCESSORS = 16
_FEWEST_PROCESSORS = 4
_BUDGET_S = 0.03


def host_overhead_us(call: Call, synchronize: Callable[[], None] = torch.cuda.synchronize) -> float:
    """Microseconds to issue one of many calls: the least of several means on each of several processors.

    No timer may be awake. Whatever else the host does adds to it, so the least is nearest the truth.
    """
    began = perf_counter()
    synchronize()
    least_s = _issue(call, _FEWEST_CALLS)
    synchronize()
    calls = min(max(int(_MEAN_S * _FEWEST_CALLS / (perf_counter() - began)), _FEWEST_CALLS), _MOST_CALLS)
    with _allowed_processors() as allowed:
        tried = random.sample(allowed, min(len(allowed), _MOST_PROCESSORS))
        for count, processor in enumerate(tried):
            if count >= _FEWEST_PROCESSORS and perf_counter() - began > _BUDGET_S:
                break
            os.sched_setaffinity(0, {processor})
            for _ in range(_MEANS):
                least_s = min(least_s, _issue(call, calls))
                synchronize()
    return least_s * 1e6


def _issue(call: Call, calls: int) -> float:
    """Issue so many calls in a row: seconds for each, but the first, for which a processor that waited has to wake."""
    call()
    started = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - started) / calls


@contextmanager
def _allowed_processors() -> Iterator[list[int]]:
    """Those that this thread may run on; afterwards it may run on each of them again."""
    allowed = os.sched_getaffinity(0)
    try:
        yield sorted(allowed)
    finally:
        os.sched_setaffinity(0, allowed)
