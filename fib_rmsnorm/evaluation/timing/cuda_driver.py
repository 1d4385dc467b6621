"""Functions of the CUDA driver that torch does not offer, called in the current device's context."""

from __future__ import annotations

import ctypes

import torch

from fib_rmsnorm.evaluation.timing.timer import MeasurementError

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: the stream does not wait for the default stream


def load_driver() -> ctypes.CDLL:
    """Load the driver's library. Raises OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


def require_success(error: int, doing: str, library: str = "CUDA") -> None:
    """Raise MeasurementError if a function of the library has returned an error."""
    if error:
        raise MeasurementError(f"{library} error {error} while {doing}")


def load_kernel(ptx: str, name: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """Compile PTX for the current device. Returns the module and the kernel of that name."""
    driver, module, function = load_driver(), ctypes.c_void_p(), ctypes.c_void_p()
    require_success(driver.cuModuleLoadData(ctypes.byref(module), ptx.encode()), f"compiling {name}")
    require_success(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), f"finding {name}")
    return module, function


class Synchronize:
    """Waits for the device. Raises what `torch.cuda.synchronize` raises, whose own steps take the host 10 us or more.

    A call is timed between three of them.
    """

    def __init__(self) -> None:
        self._wait = load_driver().cuCtxSynchronize

    def __call__(self) -> None:
        """Wait until the current device has nothing left to do."""
        if self._wait():
            torch.cuda.synchronize()


def make_private_stream(device: str) -> torch.cuda.Stream:
    """Create a stream that nobody else uses. Torch hands each of its own streams to several users."""
    stream = ctypes.c_void_p()
    require_success(load_driver().cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING), "creating a stream")
    return torch.cuda.ExternalStream(stream.value, device=device)  # type: ignore[no-untyped-call]
