"""The layouts of CUPTI's activity records in memory, and the timed calls to which recorded work belongs.

Later versions of a record only add fields at the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, MeasurementError, Sample
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


class Piece(NamedTuple):
    """A kernel, copy or fill: its start and end in nanoseconds of the device's clock, and its stream."""

    start: int
    end: int
    stream: int
    kernel: bytes = b""
    """A copy of the kernel's record; empty for a copy or fill."""


def attribute(pieces: Iterable[Piece], our_stream: int, extras: Sequence[int], marker_pieces: int) -> list[Sample]:
    """Make a sample for each call, from the work that ran between our marker before it and the marker before the next.

    The last sample also has the call's launches. Markers are our own work on our stream, each of `marker_pieces`. Only
    the order on the device counts, not the host's clock: CUPTI's conversion between the two can be off by more than a
    call takes. `extras` is the number of pieces at the end of each call that are ours too, on the call's stream. Raises
    MeasurementError if a marker or a call's work is missing, or if other work ran amid a marker: deferred by a call, or
    on our stream.
    """
    calls: list[list[Piece]] = []
    markers: list[int] = []
    ours_before = False
    for piece in sorted(pieces):
        ours = piece.stream == our_stream
        if ours and not ours_before:
            calls.append([])
            markers.append(0)
        if ours:
            markers[-1] += 1
        elif calls:
            calls[-1].append(piece)
        ours_before = ours
    own = [work[: len(work) - extra] for work, extra in zip(calls, extras, strict=False)]
    samples = [
        Sample(
            (max(piece.end for piece in work) - work[0].start) / 1e6,
            sum(piece.end - piece.start for piece in work) / 1e6,
            len(work),
            _read_launches(work) if number == len(extras) else None,
        )
        for number, work in enumerate(own, 1)
        if work
    ]
    if len(calls) > len(extras):
        raise MeasurementError(
            "device work ran amid the marker of a timed call: it was deferred, or used the marker's stream", len(extras)
        )
    if idle := len(extras) - len(samples):
        raise MeasurementError(
            f"CUPTI recorded no device work for {idle} of {len(extras)} timed calls: it was deferred, or missing",
            len(extras),
        )
    if max(markers, default=0) > marker_pieces:
        raise MeasurementError("device work of a timed call used the marker's stream", len(extras))
    return samples


def _read_launches(pieces: Iterable[Piece]) -> tuple[KernelLaunch, ...]:
    kernels = islice((piece.kernel for piece in pieces if piece.kernel), MAX_LAUNCHES)
    return tuple(launch for kernel in kernels if (launch := read_launch(kernel)))
