"""GPU time by CUDA events behind a blocking kernel: for machines without CUPTI."""

from collections.abc import Callable

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import BlockingKernel, L2Eviction, make_event
from fib_rmsnorm.evaluation.timing.timer import After, Prepare, Sample, Timer, Trial, repeat


class CudaEvents(Timer):
    """Time between two events around each call, which includes that of the events: compare it with an empty kernel's.

    Events enclose the host's gaps, too, so a call that is not queued takes as long as the host takes to issue it.
    """

    name = "cuda_events"

    def __init__(self, device: str) -> None:
        self._evict: Callable[[torch.cuda.Stream], None] = L2Eviction(device)
        self._blocking_kernel = BlockingKernel()

    def measure(self, prepare: Prepare, trial: Trial, after: After = lambda: 0) -> list[Sample]:
        """Time each call by itself."""
        samples: list[Sample] = []
        for index in repeat(trial.calls, trial.budget_s):
            call = prepare(index)
            start, end = make_event(), make_event()
            stream = torch.cuda.current_stream()
            if trial.cold:
                self._evict(stream)
            if trial.queued:
                self._blocking_kernel.hold(stream)
            start.record()
            try:
                call()
                end.record()
            finally:
                self._blocking_kernel.release()
            after()
            del call  # before the next call is prepared: code may run when this one ends
            torch.cuda.synchronize()
            if trial.queued:
                self._blocking_kernel.require_in_time(len(samples) + 1)
            elapsed_ms = start.elapsed_time(end)
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples
