"""The layouts of CUPTI's activity records in memory, and the launch in a kernel's record.

Later versions of a record only add fields at the end.
"""

from __future__ import annotations

import ctypes

from fib_rmsnorm.schema import KernelLaunch

_MAX_NAME_BYTES = 256  # the names of torch's templates take kilobytes

_TIMES = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))
_PLACE = (("device_id", ctypes.c_uint32), ("context_id", ctypes.c_uint32), ("stream_id", ctypes.c_uint32))
_DIMENSIONS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

_count_bytes = ctypes.CDLL(None).strnlen
_count_bytes.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_count_bytes.restype = ctypes.c_size_t


class KernelRecord(ctypes.Structure):
    """The first fields of CUpti_ActivityKernel4 (CUDA 8) and of all later versions.

    CUPTI's header has signed sizes. They are read as unsigned, so that a garbled one is too large, not negative.
    """

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("cache_config", ctypes.c_uint8),
        ("shared_memory_config", ctypes.c_uint8),
        ("registers_per_thread", ctypes.c_uint16),
        ("partitioned_global_cache_requested", ctypes.c_uint32),
        ("partitioned_global_cache_executed", ctypes.c_uint32),
        *_TIMES,
        ("completed", ctypes.c_uint64),
        *_PLACE,
        *((name, ctypes.c_uint32) for name in _DIMENSIONS),
        ("static_shared_memory", ctypes.c_uint32),
        ("dynamic_shared_memory", ctypes.c_uint32),
        ("local_memory_per_thread", ctypes.c_uint32),
        ("local_memory_total", ctypes.c_uint32),
        ("correlation_id", ctypes.c_uint32),
        ("grid_id", ctypes.c_uint64),
        ("name", ctypes.c_void_p),
    )


class MemoryRecord(ctypes.Structure):
    """The first fields of CUpti_ActivityMemcpy, of CUpti_ActivityMemset and of all later versions."""

    _fields_ = (("kind", ctypes.c_uint32), ("configuration", ctypes.c_uint32 * 3), *_TIMES, *_PLACE)


def read_launch(record: bytes) -> KernelLaunch | None:
    """The launch in a copy of a kernel's record; None if the copy is too short.

    The name is read from where the record points to: CUPTI keeps names while it is attached.
    """
    if len(record) < ctypes.sizeof(KernelRecord):
        return None
    found = KernelRecord.from_buffer_copy(record)
    return KernelLaunch(
        name=_read_name(found.name),
        grid=(found.grid_x, found.grid_y, found.grid_z),
        block=(found.block_x, found.block_y, found.block_z),
        registers=found.registers_per_thread,
        static_shared_bytes=found.static_shared_memory,
        dynamic_shared_bytes=found.dynamic_shared_memory,
    )


def _read_name(address: int | None) -> str:
    if not address:
        return ""
    return ctypes.string_at(address, _count_bytes(address, _MAX_NAME_BYTES)).decode(errors="replace")
