"""Measure the host's time to issue a call to a GPU, which does the work later.

On the virtual processors of a cloud, calls take 1.3 to 1.4 times as long for seconds at a time, on each processor at
different times. It looks as if another tenant used the core's other hardware thread, which the system cannot see
(docs/measuring.md, "Host time").
"""

import os
import random
from collections.abc import Callable
from time import perf_counter

import torch

from fib_rmsnorm.evaluation.timing.timer import Call

_SECONDS_PER_MEAN = 1e-3
_MIN_CALLS = 10
_MAX_CALLS = 50  # far fewer than a stream can queue; otherwise issuing would wait for the GPU
_MEANS_PER_PROCESSOR = 3  # a processor that was idle takes a while to reach full speed
_MAX_PROCESSORS = 16
_MIN_PROCESSORS = 4
_BUDGET_S = 0.008


def host_overhead_us(call: Call, synchronize: Callable[[], object] = torch.cuda.synchronize) -> float:
    """Microseconds to issue a call: the least of several means on each of several processors.

    No timer may be attached. Whatever else the host does only adds time, so the least mean is the most accurate.
    """
    began = perf_counter()
    synchronize()
    least_s = _time_issue(call, _MIN_CALLS)
    synchronize()
    calls = min(max(int(_SECONDS_PER_MEAN * _MIN_CALLS / (perf_counter() - began)), _MIN_CALLS), _MAX_CALLS)
    allowed = sorted(os.sched_getaffinity(0))
    try:
        for count, processor in enumerate(random.sample(allowed, min(len(allowed), _MAX_PROCESSORS))):
            if count >= _MIN_PROCESSORS and perf_counter() - began > _BUDGET_S:
                break
            os.sched_setaffinity(0, {processor})
            for _ in range(_MEANS_PER_PROCESSOR):
                least_s = min(least_s, _time_issue(call, calls))
                synchronize()
    finally:
        os.sched_setaffinity(0, allowed)
    return least_s * 1e6


def _time_issue(call: Call, calls: int) -> float:
    """Seconds to issue each of `calls` calls in a row, after one for which an idle processor has to wake up."""
    call()
    started = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - started) / calls
