"""Timers, each of which measures latencies by one mechanism. Its name is recorded with every latency."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from fib_rmsnorm.evaluation.timing.timer import Timer

__all__ = ["Timer", "choose_timer", "cupti_fault", "timer_name"]

TIMERS: dict[str, tuple[str, ...]] = {"cpu": ("cpu_clock.CpuClock",), "cuda": ("cupti.Cupti", "cuda_events.CudaEvents")}
"""The timers of each kind of device, the best first: the module in this folder and its class."""


def _find_timer(device: str) -> type[Timer]:
    """The best timer of a device that can be imported: some need a library of their own."""
    for timer in TIMERS["cpu" if device == "cpu" else "cuda"]:
        with suppress(ImportError):
            return _import_timer(timer)
    raise ImportError(f"no timer for {device}")


def _import_timer(timer: str) -> type[Timer]:
    module, _, name = timer.partition(".")
    found: type[Timer] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def choose_timer(device: str) -> Timer:
    """The best timer for a device: the clock on a CPU; on a GPU, CUPTI if it can be imported, else CUDA events."""
    return _find_timer(device)(*([] if device == "cpu" else [device]))


def timer_name(device: str) -> str:
    """The name of the timer that `choose_timer` makes."""
    return _find_timer(device).name


def cupti_fault() -> str | None:
    """Why CUPTI cannot be used, in one line; None if it can be imported."""
    try:
        _import_timer("cupti.Cupti")
    except ImportError as error:
        return " ".join(str(error).split())
    return None
