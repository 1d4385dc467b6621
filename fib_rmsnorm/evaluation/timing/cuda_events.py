"""GPU time by CUDA events behind a spinning kernel: for machines without CUPTI."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, Prepare, Sample, repeat

# Long enough for the host to issue a call's launches while the GPU spins, so that the events enclose only
# the device's work. The events' own floor stays in the number; who records it subtracts an empty kernel's.
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
            del call  # not when the next call is prepared: somebody may wait for its end
            torch.cuda.synchronize()
            elapsed_ms = start.elapsed_time(end)
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples

    def rest(self) -> None:
        """Nothing of it is in anyone's way."""


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
