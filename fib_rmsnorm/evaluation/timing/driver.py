"""What torch has no name for: functions of the CUDA driver, called on the current device's context."""

from __future__ import annotations

import ctypes

from fib_rmsnorm.evaluation.timing.timer import MeasurementError


def load_driver() -> ctypes.CDLL:
    """The driver's library. Raises OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


def require_success(error: int, doing: str, library: str = "CUDA") -> None:
    """Raise MeasurementError if a function of the library has returned an error."""
    if error:
        raise MeasurementError(f"{library} error {error} on {doing}")
