"""The layouts of CUPTI's activity records in memory, and the timed calls to which recorded work belongs.

Later versions of a record only add fields at the end.
"""

import ctypes
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.cuda_driver import END_OF_CALL
from fib_rmsnorm.evaluation.timing.timer import MeasurementError, Sample

# On an H100, a stream's next kernel starts 1.0 to 1.8 us after the last, 2.8 after a graph, 3.9 after a conditional
# node of one. A kernel that launches another takes 12 us itself.
_LONGEST_WAIT_NS = 6000
_END_NAME = END_OF_CALL.encode()

_TIMES = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))
_PLACE = (("device_id", ctypes.c_uint32), ("context_id", ctypes.c_uint32), ("stream_id", ctypes.c_uint32))
_DIMENSIONS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")

_compare_names = ctypes.CDLL(None).strncmp
_compare_names.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]


class KernelRecord(ctypes.Structure):
    """The first fields of CUpti_ActivityKernel4 (CUDA 8) and of all later versions.

    CUPTI's header has signed sizes. They are read as unsigned, so that a garbled one is too large, not negative.
    """

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("configuration", ctypes.c_uint32 * 3),
        *_TIMES,
        ("completed", ctypes.c_uint64),
        *_PLACE,
        *((name, ctypes.c_uint32) for name in _DIMENSIONS),
        ("memory_and_correlation", ctypes.c_uint32 * 5),
        ("grid_id", ctypes.c_uint64),
        ("name", ctypes.c_void_p),
    )


class MemoryRecord(ctypes.Structure):
    """The first fields of CUpti_ActivityMemcpy, of CUpti_ActivityMemset and of all later versions."""

    _fields_ = (("kind", ctypes.c_uint32), ("configuration", ctypes.c_uint32 * 3), *_TIMES, *_PLACE)


def is_end_of_call(record: KernelRecord) -> bool:
    """Whether it is of our kernel that marks the end of a call. CUPTI keeps its name while it is attached."""
    is_small = record.grid_x == record.block_x == 1
    return is_small and bool(record.name) and not _compare_names(record.name, _END_NAME, len(_END_NAME) + 1)


class Piece(NamedTuple):
    """A kernel, copy or fill: its start and end in nanoseconds of the device's clock, and its stream."""

    start: int
    end: int
    stream: int
    is_end: bool = False
    """Whether it is our kernel that marks the end of a call."""


def attribute(
    pieces: Iterable[Piece], our_stream: int, extras: Sequence[int], marker_pieces: int, *, queued: bool
) -> list[Sample]:
    """Make a sample for each call, from the work that ran between our marker before it and the marker before the next.

    Markers are our own work on our stream, each of `marker_pieces`. Only the order on the device counts, not the host's
    clock: CUPTI's conversion between the two can be off by more than a call takes. `extras` is the number of pieces at
    the end of each call that are ours too, on the call's stream.

    CUPTI does not record the kernels that a kernel launches. They end before the stream's next kernel starts, which is
    our mark of the call's end: a queued call is refused if the mark waits for more than recorded work, and one that is
    not, whose host may have waited too, lasts until the mark.

    Raises MeasurementError if a marker or a call's work is missing, or if other work ran amid a marker: deferred by a
    call, or on our stream.
    """
    calls: list[_Call] = []
    ours_before = False
    for piece in sorted(pieces):
        ours = piece.stream == our_stream
        if ours and not ours_before:
            calls.append(_Call([], [], []))
        if calls:
            call = calls[-1]
            (call.marker if ours else call.ends if piece.is_end else call.work).append(piece)
        ours_before = ours
    own = [call.work[: len(call.work) - extra] for call, extra in zip(calls, extras, strict=False)]
    if len(calls) > len(extras):
        raise MeasurementError(
            "device work ran amid the marker of a timed call: it was deferred, or used the marker's stream", len(extras)
        )
    if idle := len(extras) - sum(map(bool, own)):
        raise MeasurementError(
            f"CUPTI recorded no device work for {idle} of {len(extras)} timed calls: it was deferred, or missing",
            len(extras),
        )
    if any(len(call.marker) > marker_pieces for call in calls):
        raise MeasurementError("device work of a timed call used the marker's stream", len(extras))
    if unclear := sum(len(call.ends) != 1 for call in calls):
        raise MeasurementError(f"CUPTI recorded no single end of {unclear} of {len(extras)} timed calls", len(extras))
    ended = [max(piece.end for piece in work) for work in own]
    marked = [call.ends[0].start for call in calls]
    wait = median(mark - end for mark, end in zip(marked, ended, strict=True)) if calls else 0
    if queued and wait > _LONGEST_WAIT_NS:
        raise MeasurementError(
            f"the GPU was busy for {wait / 1e3:.3g} us more than CUPTI recorded: a kernel launched others", len(extras)
        )
    return [
        Sample(
            ((end if queued else max(end, mark)) - work[0].start) / 1e6,
            sum(piece.end - piece.start for piece in work) / 1e6,
            len(work),
        )
        for work, end, mark in zip(own, ended, marked, strict=True)
    ]


class _Call(NamedTuple):
    marker: list[Piece]
    work: list[Piece]
    """Its own, and ours at the end."""
    ends: list[Piece]
