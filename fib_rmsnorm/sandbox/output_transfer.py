"""Transfer a worker's outputs to the judge: through a file in memory, or in a GPU's memory (CUDA IPC).

The file is read and written, not mapped: a solution may truncate it at any moment, which kills a process that has
mapped it. The process that takes memory of a GPU trusts no message: it opens an allocation of the other process,
checks its device and size, copies the promised part, and closes it. Later writes of the other process change no
copy.
"""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch

from fib_rmsnorm.machine.devices import version_of_torch
from fib_rmsnorm.sandbox.asking import HANDLE_BYTES, DeviceMemory

_LAZY_ENABLE_PEER_ACCESS = 1  # the only flag that cuIpcOpenMemHandle knows
# CU_POINTER_ATTRIBUTE_...; the second is CU_MEMORYTYPE_DEVICE for a GPU's memory.
_DEVICE_ORDINAL, _MEMORY_TYPE, _IS_MANAGED = 9, 2, 8
_TYPE_DEVICE = 2
_ON_AMD = version_of_torch("hip") is not None  # found out when this is imported, before a Solution is loaded


class OutputTransferError(Exception):
    """The expected outputs are missing."""


def write_outputs(descriptor: int, outputs: Sequence[torch.Tensor]) -> None:
    """Write the outputs, one after the other."""
    offset = 0
    for tensor in outputs:
        source = tensor.detach().cpu().contiguous()
        left = _bytes(source)
        while left:
            count = os.pwrite(descriptor, left, offset)
            offset, left = offset + count, left[count:]


def read_outputs(descriptor: int, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Read the outputs as CPU tensors of the shapes and dtypes of `like`.

    Raises OutputTransferError if they are incomplete.
    """
    outputs = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in like]
    offset = 0
    for tensor in outputs:
        left = _bytes(tensor)
        while left:
            count = os.preadv(descriptor, [left], offset)
            if count == 0:
                raise OutputTransferError("the outputs were not transferred, or were removed afterwards")
            offset, left = offset + count, left[count:]
    return outputs


def view_outputs(taken: Sequence[torch.Tensor], like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs whose bytes were copied, as tensors of the shapes and dtypes of `like`.

    Raises OutputTransferError if there are others.
    """
    if [tensor.nbytes for tensor in taken] != [tensor.nbytes for tensor in like]:
        raise OutputTransferError("outputs of other sizes were transferred")
    return [tensor.view(each.dtype).view(each.shape) for tensor, each in zip(taken, like, strict=True)]


def _bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor; the caller keeps the tensor alive."""
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


class DeviceMemoryError(Exception):
    """Memory of a GPU cannot be handed over."""


class _Handle(ctypes.Structure):
    """CUipcMemHandle, which the driver takes by value."""

    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


@cache
def _load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceMemoryError(str(error)) from None


def _require(error: int, doing: str) -> None:
    if error:
        raise DeviceMemoryError(f"CUDA error {error} while {doing}")


def is_device_memory(address: int) -> bool:
    """Whether an address lies in a GPU's own memory, neither managed nor the host's. AMD's driver is not asked."""
    if _ON_AMD:
        return True
    driver, kind, is_managed = _load(), ctypes.c_uint64(), ctypes.c_uint64()
    error = driver.cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_uint64(address))
    error = error or driver.cuPointerGetAttribute(ctypes.byref(is_managed), _IS_MANAGED, ctypes.c_uint64(address))
    return not error and kind.value == _TYPE_DEVICE and not is_managed.value


def offer(tensors: Sequence[torch.Tensor]) -> list[DeviceMemory]:
    """Say where contiguous tensors lie, for another process to take them while this one keeps them.

    Raises DeviceMemoryError if their memory cannot be opened by others.
    """
    driver = _load()
    found = []
    for tensor in tensors:
        with torch.cuda.device(tensor.device):
            torch.cuda.synchronize()
            address, handle = tensor.data_ptr(), _Handle()
            base, _ = _find_allocation(driver, address)
            _require(driver.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(base)), "sharing memory")
        found.append(DeviceMemory(bytes(handle).hex(), address - base, tensor.nbytes))
    return found


def take(offered: Sequence[DeviceMemory], device: str) -> list[torch.Tensor]:
    """Copy what another process offers to memory of this one on the same device, as bytes.

    Raises DeviceMemoryError if there is no such memory, or if it lies on another device or is shorter than offered.
    """
    driver = _load()
    with torch.cuda.device(device):
        torch.cuda.synchronize()  # the driver's functions need the device's context
        return [_copy(driver, one) for one in offered]


def _copy(driver: ctypes.CDLL, offered: DeviceMemory) -> torch.Tensor:
    with _opened(driver, offered.handle) as address:
        base, size = _find_allocation(driver, address)
        ordinal = ctypes.c_int(-1)
        error = driver.cuPointerGetAttribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, ctypes.c_uint64(address))
        _require(error, "finding the device of opened memory")
        if ordinal.value != torch.cuda.current_device():
            raise DeviceMemoryError(f"the memory lies on GPU {ordinal.value}, not on {torch.cuda.current_device()}")
        first = address + offered.offset
        if first + offered.nbytes > base + size:
            raise DeviceMemoryError(f"{offered.nbytes} bytes at {offered.offset} were offered of {size}")
        copy = torch.empty(offered.nbytes, dtype=torch.uint8, device="cuda")
        if offered.nbytes:
            places = ctypes.c_uint64(copy.data_ptr()), ctypes.c_uint64(first)
            _require(driver.cuMemcpyDtoD_v2(*places, ctypes.c_size_t(offered.nbytes)), "copying")
        torch.cuda.synchronize()
    return copy


@contextmanager
def _opened(driver: ctypes.CDLL, handle: str) -> Iterator[int]:
    """The address at which an allocation of another process is mapped."""
    opened = ctypes.c_uint64()
    given = _Handle.from_buffer_copy(bytes.fromhex(handle))
    error = driver.cuIpcOpenMemHandle_v2(ctypes.byref(opened), given, _LAZY_ENABLE_PEER_ACCESS)
    _require(error, "opening the memory of another process")
    try:
        yield opened.value
    finally:
        _require(driver.cuIpcCloseMemHandle(opened), "closing the memory of another process")


def _find_allocation(driver: ctypes.CDLL, address: int) -> tuple[int, int]:
    """The start and the size of the allocation in which an address lies."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    error = driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    _require(error, "finding an allocation")
    return base.value, size.value
