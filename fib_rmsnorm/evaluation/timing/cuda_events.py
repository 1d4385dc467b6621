"""GPU time by CUDA events behind a spinning kernel: for machines without CUPTI."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import repeat
from fib_rmsnorm.schema import Settings

# Long enough for the host to issue a call's launches while the GPU spins, so that the events enclose only
# the device's work. The events' own floor of 1 to 2 us stays in the number.
_SPIN_CYCLES = 400_000


class CudaEvents:
    """Time between two events around each call, with L2 evicted before."""

    name = "cuda_events"
    cold_l2 = True

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)

    def measure(self, call: Callable[[], object], settings: Settings) -> list[float]:
        """Time each call by itself."""
        for _ in repeat(settings.warmup_runs):
            call()
            torch.cuda.synchronize()
        samples = []
        for _ in range(settings.num_trials):
            for _ in repeat(settings.iterations):
                start, end = _event(), _event()
                self._evict()
                torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
                start.record()
                call()
                end.record()
                torch.cuda.synchronize()
                samples.append(start.elapsed_time(end))
        return samples


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
