"""CUPTI's activity records, read from its buffers as they are.

cupti-python finds and loads the library. But its version for CUDA 13.0 takes 50 to 100 us to make an object of a
record and 4 us to switch a kind of them on, a third of the time of a trial, and three numbers of each are all we need.
Only the kernels of one call are read in full: each kernel's record is copied (0.2 us), and read later if it is theirs.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from cupti import cupti

from fib_rmsnorm.evaluation.timing.attribution import Piece
from fib_rmsnorm.evaluation.timing.cuda_driver import require_success
from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, MemoryRecord
from fib_rmsnorm.evaluation.timing.timer import MeasurementError

_BUFFER_BYTES = 1 << 20  # some 5,000 records; CUPTI asks for more if it needs more
_FORCED_FLUSH = 1

_RECORDS: dict[int, type[KernelRecord | MemoryRecord]] = {
    int(cupti.ActivityKind.CONCURRENT_KERNEL): KernelRecord,
    int(cupti.ActivityKind.MEMCPY): MemoryRecord,
    int(cupti.ActivityKind.MEMSET): MemoryRecord,
}
_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Sizes = ctypes.POINTER(ctypes.c_size_t)
_Requested = ctypes.CFUNCTYPE(None, _Pointers, _Sizes, _Sizes)
_Completed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class ActivityRecorder:
    """Records kernels, copies and fills while it is on. A process has one open at a time: the last one opened."""

    def __init__(self) -> None:
        library = _loaded_library()
        self._enable, self._disable = library.cuptiActivityEnable, library.cuptiActivityDisable
        self._flush, self._next = library.cuptiActivityFlushAll, library.cuptiActivityGetNextRecord
        self._count_dropped = library.cuptiActivityGetNumDroppedRecords
        self._register, self._finalize = library.cuptiActivityRegisterCallbacks, library.cuptiFinalize
        self._next.argtypes = [ctypes.c_void_p, ctypes.c_size_t, _Pointers]
        self._pieces: list[Piece] = []
        self._buffers: dict[int, ctypes.Array[ctypes.c_uint64]] = {}
        """By address, those that CUPTI has."""
        self._spare: list[ctypes.Array[ctypes.c_uint64]] = []
        self._callbacks = _Requested(self._give_buffer), _Completed(self._take_buffer)  # kept for CUPTI's sake

    def open(self) -> None:
        """Make ready to be switched on. Raises MeasurementError if CUPTI cannot be used, now or here."""
        _require(self._register(*self._callbacks), "registering its buffers")

    def close(self) -> None:
        """Detach CUPTI from the process, until this is opened again; the device must be idle."""
        _require(self._finalize(), "detaching it")

    def _give_buffer(self, buffer: Any, size: Any, most_records: Any) -> None:
        try:
            memory = self._spare.pop()
        except IndexError:  # asked for, and not looked at before: each thread that launches something comes here
            memory = (ctypes.c_uint64 * (_BUFFER_BYTES // 8))()
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], most_records[0] = address, _BUFFER_BYTES, 0

    def _take_buffer(self, _context: int | None, _stream: int, buffer: int, _size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        while self._next(buffer, valid, ctypes.byref(record)) == 0 and record.value:
            if layout := _RECORDS.get(ctypes.c_uint32.from_address(record.value).value):
                found = layout.from_address(record.value)
                kernel = bytes(found) if layout is KernelRecord else b""  # CUPTI gets the buffer back
                self._pieces.append(Piece(found.start, found.end, found.stream_id, kernel))
        self._spare.append(self._buffers.pop(buffer))

    def on(self) -> None:
        """Record from now on."""
        for kind in _RECORDS:
            _require(self._enable(kind), "switching its records on")

    def off(self) -> None:
        """Record nothing from now on."""
        for kind in _RECORDS:
            _require(self._disable(kind), "switching its records off")

    def take(self) -> list[Piece]:
        """What was recorded since this was last called, in no order. Raises MeasurementError if records were lost."""
        _require(self._flush(_FORCED_FLUSH), "handing its records over")
        pieces, self._pieces = self._pieces, []
        lost = ctypes.c_size_t()
        _require(self._count_dropped(None, 0, ctypes.byref(lost)), "counting lost records")
        if lost.value:
            raise MeasurementError(f"CUPTI lost {lost.value} records")
        return pieces


def _loaded_library() -> ctypes.CDLL:
    """The CUPTI that cupti-python has loaded, wherever it found it. Of several any will do, if nothing uses two."""
    cupti.get_timestamp()  # loads it
    mapped = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    found = sorted(path for path in mapped if Path(path).name.startswith("libcupti.so"))
    if not found:
        raise MeasurementError("cupti-python has loaded no libcupti.so")
    return ctypes.CDLL(found[-1])


def _require(error: int, doing: str) -> None:
    require_success(error, doing, "CUPTI")
