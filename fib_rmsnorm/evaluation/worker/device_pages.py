"""Memory of a GPU between addresses that nobody can access: a call that reads or writes there fails.

Torch lays tensors one after the other, so what reads beyond one reads the next, and passes. The driver maps pages of
2 MiB to addresses that we choose.
"""

import ctypes
from collections.abc import Sequence
from types import TracebackType

import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import POISON
from fib_rmsnorm.evaluation.timing.cuda_driver import load_driver, require_success
from fib_rmsnorm.evaluation.timing.timer import MeasurementError

_NONE = ctypes.c_uint64()
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3  # CU_MEM_ALLOCATION_TYPE_, CU_MEM_LOCATION_TYPE_, CU_MEM_ACCESS_FLAGS_
_ALIGNMENT = 256
"""As kernels expect it of torch. So up to 255 bytes behind a tensor can be read; they hold poison."""
_MOST_GUARDED_BYTES = 64 << 20


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


class _Bytes:
    """Memory that torch takes for a tensor of bytes."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


def round_up(nbytes: int, unit: int) -> int:
    """The least multiple of `unit` that holds so many bytes."""
    return -(-nbytes // unit) * unit


class DevicePages:
    """Pages of the current GPU. All are freed at the end of a `with` block, if there is one."""

    def __init__(self) -> None:
        location = _Location(_ON_DEVICE, torch.cuda.current_device())
        self._properties = _Properties(_PINNED, 0, location, None, 0)
        self._access = _Access(location, _READ_WRITE)
        self._reserved: list[tuple[int, int, int]] = []
        """The begin of each reservation, and of its mapped part, and the size of that."""
        self._handles: list[int] = []
        granularity = ctypes.c_size_t()
        self._call("GetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(self._properties), 0)
        self.page_bytes = granularity.value

    def __enter__(self) -> "DevicePages":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free everything, unless a call has failed: then the process ends, and the driver refuses."""
        if error is not None:
            return
        torch.cuda.synchronize()
        for begin, mapped, size in self._reserved:
            self._call("Unmap", ctypes.c_uint64(mapped), ctypes.c_size_t(size))
            self._call("AddressFree", ctypes.c_uint64(begin), ctypes.c_size_t(mapped + size + self.page_bytes - begin))
        for handle in self._handles:
            self._call("Release", ctypes.c_uint64(handle))

    def map(self, parts: Sequence[tuple[int, int]], room: int = 0) -> torch.Tensor:
        """Map parts one after the other. Returns their bytes, between at least `room` and a page without memory.

        A part is its size, and that of the memory which is mapped there, again and again if it is less. Both are whole
        pages.
        """
        room = max(self.page_bytes, round_up(room, self.page_bytes))
        begin, size = ctypes.c_uint64(), sum(each for each, _ in parts)
        reserved = ctypes.c_size_t(room + size + self.page_bytes)
        self._call("AddressReserve", ctypes.byref(begin), reserved, ctypes.c_size_t(), _NONE, _NONE)
        place = mapped = begin.value + room
        for part, own in parts:
            if not part:
                continue
            handle = ctypes.c_uint64()
            of_size = ctypes.c_size_t(own)
            self._call("Create", ctypes.byref(handle), of_size, ctypes.byref(self._properties), _NONE)
            self._handles.append(handle.value)
            for _ in range(part // own):
                self._call("Map", ctypes.c_uint64(place), of_size, ctypes.c_size_t(), handle, _NONE)
                place += own
        allowed = ctypes.byref(self._access), ctypes.c_size_t(1)
        self._call("SetAccess", ctypes.c_uint64(mapped), ctypes.c_size_t(size), *allowed)
        self._reserved.append((begin.value, mapped, size))
        return torch.as_tensor(_Bytes(mapped, size), device="cuda")

    def _call(self, name: str, *arguments: object) -> None:
        require_success(getattr(load_driver(), f"cuMem{name}")(*arguments), f"calling cuMem{name}")


class GuardedPlaces:
    """Places for the inputs of judged calls, each at the end of pages of its own, kept until the process ends.

    Inputs of more than 64 MiB stay where torch allocates them, and all do where the driver cannot map pages.
    """

    def __init__(self) -> None:
        self._pages: DevicePages | None = None
        self._is_possible = True
        self._places: dict[tuple[int, int], torch.Tensor] = {}
        """By the number of the input, and the size."""

    def empty_like(self, tensor: torch.Tensor, number: int) -> torch.Tensor:
        """A place for input `number` of a call; what lies around the tensor is poison."""
        if not self._is_possible or not 0 < tensor.nbytes <= _MOST_GUARDED_BYTES or not tensor.is_contiguous():
            return torch.empty_like(tensor)
        try:
            self._pages = self._pages or DevicePages()
            size = max(self._pages.page_bytes, 1 << (tensor.nbytes - 1).bit_length())
            if (number, size) not in self._places:
                self._places[number, size] = self._pages.map([(size, size)])
        except (MeasurementError, OSError):  # OSError: no CUDA, as on AMD's
            self._is_possible = False
            return torch.empty_like(tensor)
        place = self._places[number, size].fill_(POISON)
        start = (size - tensor.nbytes) // _ALIGNMENT * _ALIGNMENT
        return place[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
