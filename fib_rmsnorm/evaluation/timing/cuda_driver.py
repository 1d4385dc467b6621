"""What torch has no name for: functions of the CUDA driver, called on the current device's context."""

from __future__ import annotations

import ctypes

import torch

from fib_rmsnorm.evaluation.timing.timer import MeasurementError

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it waits for nothing on the default stream


def load_driver() -> ctypes.CDLL:
    """The driver's library. Raises OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


def require_success(error: int, doing: str, library: str = "CUDA") -> None:
    """Raise MeasurementError if a function of the library has returned an error."""
    if error:
        raise MeasurementError(f"{library} error {error} on {doing}")


def make_private_stream(device: str) -> torch.cuda.Stream:
    """A stream that nobody else is given; torch's own are given to several, in turn."""
    stream = ctypes.c_void_p()
    require_success(load_driver().cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING), "creating a stream")
    return torch.cuda.ExternalStream(stream.value, device=device)  # type: ignore[no-untyped-call]
