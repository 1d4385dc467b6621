"""Timers: each produces latencies by one mechanism, recorded with them."""

from __future__ import annotations

from fib_rmsnorm.evaluation.timing.timer import Timer

__all__ = ["Timer", "choose_timer"]


def choose_timer(device: str) -> Timer:
    """The best timer for a device: CUPTI where it can be imported, CUDA events otherwise, the clock on CPU."""
    if device == "cpu":
        from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock

        return CpuClock()
    try:
        from fib_rmsnorm.evaluation.timing.cupti import Cupti

        return Cupti(device)
    except ImportError:
        from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents

        return CudaEvents(device)
