"""GPU time by CUDA events behind a spinning kernel: for machines without CUPTI."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, Prepare, Sample, repeat

# Long enough for the host to issue a call's launches while the GPU spins, so that the events enclose only the device's
# work. The latency includes the cost of the events themselves; compare it with that of an empty kernel.
_SPIN_CYCLES = 400_000


class CudaEvents:
    """Time between two events around each call."""

    name = "cuda_events"
    tick_ms = 0.0

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself."""
        samples = []
        for index in repeat(calls, budget_s):
            call = prepare(index)
            start, end = _event(), _event()
            if cold:
                self._evict()
            torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
            start.record()
            call()
            end.record()
            after()
            del call  # before the next call is prepared: code may run when this one ends
            torch.cuda.synchronize()
            elapsed_ms = start.elapsed_time(end)
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples

    def rest(self) -> None:
        """Do nothing: this timer slows nothing down."""


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
