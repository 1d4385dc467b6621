"""Tensors on a GPU with more than 2^31 elements that take little memory: only their last rows have memory of their own.

All that lies before those is the same few pages, mapped again and again. Before the tensor nothing is mapped: a kernel
that computes offsets in 32 bits wraps there, and its call fails.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.timing.cuda_driver import load_driver, require_success
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller

FAR_ELEMENTS = 1 << 31
"""The first offset that a signed integer of 32 bits cannot hold."""
_REPEATED_BYTES = 32 << 20
_NONE = ctypes.c_uint64()
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3  # CU_MEM_ALLOCATION_TYPE_, CU_MEM_LOCATION_TYPE_, CU_MEM_ACCESS_FLAGS_


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("of_windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class FarMemory:
    """Allocates such memory on the current device, and frees all of it at the end of a `with` block.

    The last `own_rows` of `rows` have memory of their own.
    """

    def __init__(self, rows: int, own_rows: int) -> None:
        self._driver = load_driver()
        self._rows, self._own_rows = rows, own_rows
        location = _Location(_ON_DEVICE, torch.cuda.current_device())
        self._properties = _Properties(_PINNED, 0, location, None, 0)
        self._access = _Access(location, _READ_WRITE)
        self._reserved: list[tuple[int, int, int]] = []
        """The begin of each reservation, that of its mapped part, and its end."""
        self._handles: list[ctypes.c_uint64] = []
        granularity = ctypes.c_size_t()
        self._call("GetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(self._properties), 0)
        self._unit = granularity.value

    def __enter__(self) -> FarMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free everything, unless a call has failed: then the process ends, and the driver refuses."""
        if error is not None:
            return
        torch.cuda.synchronize()
        for begin, mapped, end in self._reserved:
            self._call("Unmap", ctypes.c_uint64(mapped), ctypes.c_size_t(end - mapped))
            self._call("AddressFree", ctypes.c_uint64(begin), ctypes.c_size_t(end - begin))
        for handle in self._handles:
            self._call("Release", handle)

    def allocate(self, nbytes: int, device: str) -> torch.Tensor:
        """Allocate bytes for a tensor of all rows, and room before it for what wraps."""
        own = self._round_up(nbytes * self._own_rows // self._rows + self._unit)
        size = self._round_up(nbytes)
        repeated = max(0, size - own) // _REPEATED_BYTES * _REPEATED_BYTES
        begin = ctypes.c_uint64()
        room = self._round_up(FAR_ELEMENTS * 8)
        self._call(
            "AddressReserve", ctypes.byref(begin), *map(ctypes.c_size_t, (room + size, self._unit)), _NONE, _NONE
        )
        mapped = begin.value + room
        self._map(mapped, repeated, _REPEATED_BYTES)
        self._map(mapped + repeated, size - repeated, size - repeated)
        self._call(
            "SetAccess", ctypes.c_uint64(mapped), ctypes.c_size_t(size), ctypes.byref(self._access), ctypes.c_size_t(1)
        )
        self._reserved.append((begin.value, mapped, mapped + size))
        return torch.as_tensor(_Bytes(mapped, nbytes), device=device)

    def _map(self, begin: int, size: int, own: int) -> None:
        """Map new memory of `own` bytes, as often as it takes to fill `size`."""
        if not size:
            return
        handle = ctypes.c_uint64()
        self._call("Create", ctypes.byref(handle), ctypes.c_size_t(own), ctypes.byref(self._properties), _NONE)
        self._handles.append(handle)
        for offset in range(0, size, own):
            self._call("Map", ctypes.c_uint64(begin + offset), *map(ctypes.c_size_t, (own, 0)), handle, _NONE)

    def _round_up(self, nbytes: int) -> int:
        return -(-nbytes // self._unit) * self._unit

    def _call(self, name: str, *arguments: object) -> None:
        require_success(getattr(self._driver, f"cuMem{name}")(*arguments), f"calling cuMem{name}")


class _Bytes:
    """Memory that torch takes for a tensor of bytes."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


def call_far(caller: SolutionCaller, called: DeviceWorkload, inputs: dict[str, Any], axis: str) -> list[torch.Tensor]:
    """Call on inputs whose rows are the last of tensors that have more than FAR_ELEMENTS elements before them.

    `axis` counts the rows, and comes first wherever it occurs. Returns the outputs of these rows alone, and those that
    have no rows. Raises RefusalError if the call fails.
    """
    specs = called.definition.inputs
    of_rows = {name: value for name, value in inputs.items() if axis in (specs[name].shape or ())}
    elements = max(value[0].numel() for value in of_rows.values())
    # A multiple of 16 before them, so that Triton has no other kernel for this number of rows.
    before = -(-FAR_ELEMENTS // elements // 16) * 16
    own = called.workload.axes[axis]
    workload = called.workload.model_copy(update={"axes": {**called.workload.axes, axis: before + own}})
    with FarMemory(before + own, own) as memory:
        far = {}
        for name, value in of_rows.items():
            nbytes = (before + own) * value[0].numel() * value.element_size()
            whole = memory.allocate(nbytes, called.device).zero_().view(value.dtype).view(-1, *value.shape[1:])
            whole[before:] = value
            far[name] = whole
        buffers = OutputBuffers(replace(called, workload=workload), memory.allocate)
        found = zip(caller.run_once({**inputs, **far}, buffers), called.definition.outputs.values(), strict=True)
        outputs = [(each[before:] if axis in (spec.shape or ()) else each).clone() for each, spec in found]
        del far, whole, buffers
        return outputs
