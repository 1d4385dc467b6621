"""Have a process open a GPU before it does anything else, so that a GPU that cannot be used is nobody else's fault."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.nvml import find_gpu
from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.sandbox.channel import Message

_GIB = 1 << 30
# What a process needs beside its context: the timer alone reads a buffer of twice L2's size (100 MiB on an H200).
_ROOM_BYTES = 256 << 20
_AT_ONCE = 3
_turns: dict[str, threading.Semaphore] = {}


class DeviceUnusableError(InputError):
    """A process could not open a GPU, because other processes fill its memory, for instance."""


class OpenDevice(Request):
    """Open a device: the first request to a process that uses a GPU."""

    doing: ClassVar[str] = "opening the device"
    do: Literal["open_device"] = "open_device"
    device: str


@dataclass(frozen=True)
class DeviceOpened:
    """The device is open, or cannot be used."""

    fault: str | None
    """CUDA's message: its first sentence."""


def take_turn(device: str) -> AbstractContextManager[object]:
    """Wait until few other processes are being asked to open this device.

    A driver creates contexts one after the other, whoever asks: of 13 processes that asked an H100's at once, none was
    ready after 1.1 s, and all after 1.9. In turn, the first can go on while the others wait.
    """
    return _turns.setdefault(device, threading.Semaphore(_AT_ONCE))


def open_device(message: Message) -> DeviceOpened:
    """Create this process's context on a GPU, and see whether there is room for what comes after it."""
    import torch

    request = OpenDevice.model_validate(message)
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call, unused-ignore]
        torch.cuda.set_device(request.device)
        torch.empty(_ROOM_BYTES, dtype=torch.uint8, device=request.device)
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError) as error:  # AssertionError: this torch is built without CUDA
        # "CUDA out of memory." is followed by 600 characters about an allocator that the user does not have.
        return DeviceOpened(str(error).strip().partition("\n")[0].partition(". ")[0].rstrip("."))
    return DeviceOpened(None)


def describe_unusable(device: Device, fault: str) -> str:
    """Say in a line that a GPU cannot be used, why, how much of its memory is free, and what to do."""
    gpu = find_gpu(device.name)
    free = gpu.free_memory_bytes() if gpu else None
    memory = "" if free is None else f"; {free / _GIB:.1f} of {device.memory_bytes / _GIB:.1f} GiB are free"
    return (
        f"{device.name} ({device.hardware}) cannot be used: {fault}{memory};"
        " end other processes on it (nvidia-smi lists them), or choose another device"
    )
