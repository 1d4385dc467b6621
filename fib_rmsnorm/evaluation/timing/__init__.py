"""Timers, each of which measures latencies by one mechanism. Its name is recorded with every latency."""

from __future__ import annotations

from fib_rmsnorm.evaluation.timing.timer import Timer

__all__ = ["Timer", "choose_timer", "cupti_fault", "timer_name"]


def choose_timer(device: str) -> Timer:
    """The best timer for a device: the clock on a CPU; on a GPU, CUPTI if it can be imported, else CUDA events."""
    name = timer_name(device)
    if name == "cpu_clock":
        from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock

        return CpuClock()
    if name == "cupti":
        from fib_rmsnorm.evaluation.timing.cupti import Cupti

        return Cupti(device)
    from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents

    return CudaEvents(device)


def timer_name(device: str) -> str:
    """The name of the timer that `choose_timer` makes."""
    if device == "cpu":
        return "cpu_clock"
    return "cuda_events" if cupti_fault() else "cupti"


def cupti_fault() -> str | None:
    """Why CUPTI cannot be used, in one line; None if it can be imported."""
    try:
        from fib_rmsnorm.evaluation.timing import cupti  # noqa: F401
    except ImportError as error:
        return " ".join(str(error).split())
    return None
