"""What a call costs the host, on a GPU that does the work later."""

from __future__ import annotations

from time import perf_counter

import torch

from fib_rmsnorm.evaluation.timing.timer import Call

_CALLS = 50  # far fewer than a stream can hold, or issuing would wait for the GPU
_FEWEST_MEANS = 5
_LEAST_S = 0.005  # a processor that was idle takes a while to get up to speed


def host_overhead_us(call: Call) -> float:
    """Microseconds to issue a call without waiting for it: the least of several means.

    No timer may be awake. Whatever else the host does adds to it, for seconds at times: the least of several moments
    is nearer the truth than any.
    """
    means_s: list[float] = []
    began = perf_counter()
    while len(means_s) < _FEWEST_MEANS or perf_counter() - began < _LEAST_S:
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(_CALLS):
            call()
        means_s.append((perf_counter() - started) / _CALLS)
    torch.cuda.synchronize()
    return min(means_s) * 1e6
