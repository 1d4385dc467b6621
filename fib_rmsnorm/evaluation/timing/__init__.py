"""Timers, each of which measures latencies by one mechanism. Its name is recorded with every latency."""

from importlib import import_module

from fib_rmsnorm.evaluation.timing.timer import Timer
from fib_rmsnorm.machine.devices import version_of_torch

__all__ = ["Timer", "choose_timer", "cupti_fault", "timer_name"]


def _find_timer(device: str) -> type[Timer]:
    """The best timer of a device that can be imported: CUPTI needs a library of its own."""
    if device == "cpu":
        from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock

        return CpuClock
    if version_of_torch("hip"):
        from fib_rmsnorm.evaluation.timing.hip_events import HipEvents

        return HipEvents
    if cupti_fault() is None:
        from fib_rmsnorm.evaluation.timing.cupti import Cupti

        return Cupti
    from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents

    return CudaEvents


def choose_timer(device: str) -> Timer:
    """The best timer for a device: the clock on a CPU; on AMD's GPUs, HIP events; on NVIDIA's, CUPTI if it is there."""
    return _find_timer(device)(*([] if device == "cpu" else [device]))


def timer_name(device: str) -> str:
    """The name of the timer that `choose_timer` makes."""
    return _find_timer(device).name


def cupti_fault() -> str | None:
    """Why CUPTI cannot be used, in one line; None if it can be imported."""
    try:
        import_module(f"{__name__}.cupti")
    except ImportError as error:
        return " ".join(str(error).split())
    return None
