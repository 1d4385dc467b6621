"""What a call costs the host, on a GPU that does the work later."""

from __future__ import annotations

from time import perf_counter

import torch

from fib_rmsnorm.evaluation.timing.timer import Call

_CALLS = 50  # far fewer than a stream can hold, or issuing would wait for the GPU
_TRIALS = 5


def host_overhead_us(call: Call) -> float:
    """Microseconds to issue a call without waiting for it: the least of several means.

    No timer may be awake. Whatever else the host does adds to it, for seconds at times: the least of several moments
    is nearer the truth than any.
    """
    best_s = float("inf")
    for _ in range(_TRIALS):
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(_CALLS):
            call()
        best_s = min(best_s, (perf_counter() - started) / _CALLS)
    torch.cuda.synchronize()
    return best_s * 1e6
