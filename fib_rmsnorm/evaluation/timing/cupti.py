"""Time calls on a GPU with CUPTI's activity records, whatever streams they use.

The records are read directly from CUPTI's buffers; cupti-python only finds and loads the library. Its version for CUDA
13.0 takes 50 to 100 us to convert a record to an object and 4 us to enable a kind of record: a third of a trial's time.
We need three numbers of each record, and the name only of the smallest kernels.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from cupti import cupti

from fib_rmsnorm.evaluation.timing.cuda_driver import (
    END_OF_CALL,
    BlockingKernel,
    L2Eviction,
    PtxKernel,
    Synchronize,
    make_private_stream,
    require_success,
)
from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, MemoryRecord, Piece, attribute, is_end_of_call
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, Timer, Trial, repeat

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
    """Records kernels, copies and fills while it is on. Only the recorder that was opened last works."""

    def __init__(self) -> None:
        library = _loaded_library()
        self._enable, self._disable = library.cuptiActivityEnable, library.cuptiActivityDisable
        self._flush, self._next = library.cuptiActivityFlushAll, library.cuptiActivityGetNextRecord
        self._count_dropped = library.cuptiActivityGetNumDroppedRecords
        self._register, self._finalize = library.cuptiActivityRegisterCallbacks, library.cuptiFinalize
        self._next.argtypes = [ctypes.c_void_p, ctypes.c_size_t, _Pointers]
        self._pieces: list[Piece] = []
        self._buffers: dict[int, ctypes.Array[ctypes.c_uint64]] = {}
        """The buffers that CUPTI has, by address."""
        self._spare: list[ctypes.Array[ctypes.c_uint64]] = []
        self._callbacks = _Requested(self._give_buffer), _Completed(self._take_buffer)  # CUPTI needs them to stay alive

    def open(self) -> None:
        """Attach CUPTI to the process. Raises MeasurementError if CUPTI cannot be used."""
        _require(self._register(*self._callbacks), "registering its buffers")

    def close(self) -> None:
        """Detach CUPTI from the process until the recorder is opened again. The device must be idle."""
        _require(self._finalize(), "detaching it")

    def _give_buffer(self, buffer: Any, size: Any, most_records: Any) -> None:
        try:
            memory = self._spare.pop()
        except IndexError:  # not tested for first: other threads that launch work also take buffers
            memory = (ctypes.c_uint64 * (_BUFFER_BYTES // 8))()
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], most_records[0] = address, _BUFFER_BYTES, 0

    def _take_buffer(self, _context: int | None, _stream: int, buffer: int, _size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        while self._next(buffer, valid, ctypes.byref(record)) == 0 and record.value:
            if layout := _RECORDS.get(ctypes.c_uint32.from_address(record.value).value):
                found = layout.from_address(record.value)
                is_end = isinstance(found, KernelRecord) and is_end_of_call(found)
                self._pieces.append(Piece(found.start, found.end, found.stream_id, is_end))
        self._spare.append(self._buffers.pop(buffer))

    def on(self) -> None:
        """Start recording."""
        for kind in _RECORDS:
            _require(self._enable(kind), "switching its records on")

    def off(self) -> None:
        """Stop recording."""
        for kind in _RECORDS:
            _require(self._disable(kind), "switching its records off")

    def take(self) -> list[Piece]:
        """Return what was recorded since the last call, unordered. Raises MeasurementError if records were lost."""
        _require(self._flush(_FORCED_FLUSH), "flushing its records")
        pieces, self._pieces = self._pieces, []
        lost = ctypes.c_size_t()
        _require(self._count_dropped(None, 0, ctypes.byref(lost)), "counting lost records")
        if lost.value:
            raise MeasurementError(f"CUPTI lost {lost.value} records")
        return pieces


def _loaded_library() -> ctypes.CDLL:
    """The CUPTI library that cupti-python has loaded. If there are several, any will do, as long as we use only one."""
    cupti.get_timestamp()  # loads it
    mapped = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    found = sorted(path for path in mapped if Path(path).name.startswith("libcupti.so"))
    if not found:
        raise MeasurementError("cupti-python did not load libcupti.so; reinstall cupti-python")
    return ctypes.CDLL(found[-1])


def _require(error: int, doing: str) -> None:
    require_success(error, doing, "CUPTI")


class Cupti(Timer):
    """Times the kernels, copies and fills of each call, on any stream and from any thread.

    The device is idle before and after a call. Right before a call, we run a marker on our own stream: the eviction or
    a fill, and for a queued call a kernel that holds the call's stream until the host has issued it. The work between
    two markers belongs to the call; a kernel on the call's stream marks its end. (Tracing API calls as well would tell
    which call launched what, but recording would take 0.5 ms longer per call.)

    CUPTI is on from the marker to the call's end. The durations that it records right after it is switched on are too
    short: the first by up to 0.3 us (on an H200, where time stamps taken inside the kernel did not change), and one
    that follows a tiny first kernel by 0.03 us. After the eviction, durations are as if CUPTI had always been on.

    Once CUPTI has been on, every launch takes the host 0.5 us longer, even while it is off: `rest` detaches it.
    """

    name = "cupti"
    tick_ms = 32e-6  # of the GPU's clock, as measured on an H200

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)
        self._marker = torch.empty((), dtype=torch.int32, device=device)
        self._recorder = ActivityRecorder()
        self._synchronize = Synchronize()
        self._stream = make_private_stream(device)
        self._blocking_kernel = BlockingKernel()
        self._held = torch.cuda.Event()  # type: ignore[no-untyped-call]
        """On our stream, after the blocking kernel. One is enough: the device is idle between calls."""
        self._end_of_call = PtxKernel(f".visible .entry {END_OF_CALL}() {{ ret; }}", END_OF_CALL)
        self._is_attached = False
        self._stream_number = 0
        """CUPTI's number for our stream, while CUPTI is attached."""
        self._eviction_pieces = 0
        """The pieces of work of a marker that is the eviction."""
        self._was_interrupted = False
        """Whether the last measurement ended before its records were taken."""

    def attach(self) -> None:
        """Attach CUPTI, which takes 8 ms, or 0.1 s while other processes open the GPU.

        Afterwards it is known of what a marker consists.
        """
        if self._is_attached:
            return
        self._recorder.open()
        found = self._record_marker(cold=False)
        if len(found) != 1:
            raise MeasurementError(f"CUPTI recorded {len(found)} pieces of work; expected 1")
        self._eviction_pieces = len(self._record_marker(cold=True))
        self._stream_number, self._is_attached = found[0].stream, True

    def rest(self) -> None:
        """Detach CUPTI until the next measurement."""
        if self._is_attached:
            self._synchronize()
            self._recorder.close()
            self._is_attached = False

    def _record_marker(self, *, cold: bool) -> list[Piece]:
        self._recorder.on()
        self._mark_start(cold=cold)
        self._recorder.off()
        return self._recorder.take()

    def _mark_start(self, *, cold: bool, held: torch.cuda.Stream | None = None) -> None:
        """Run a marker. A queued call's stream is `held` until `release`; for another call, wait for the marker."""
        if cold:
            self._evict(self._stream)
        else:
            self._synchronize()
            with torch.cuda.stream(self._stream):
                self._marker.zero_()
        if held is None:
            self._synchronize()
        else:
            self._blocking_kernel.hold(self._stream)
            self._held.record(self._stream)
            held.wait_event(self._held)

    def measure(self, prepare: Prepare, trial: Trial, after: After = lambda: 0) -> list[Sample]:
        """Time each call by itself."""
        self.attach()
        if self._was_interrupted:
            self._recorder.take()  # discards what it recorded
        self._was_interrupted = True
        extras = []
        try:
            for index in repeat(trial.calls, trial.budget_s):
                call = prepare(index)
                stream = torch.cuda.current_stream()
                self._recorder.on()
                self._mark_start(cold=trial.cold, held=stream if trial.queued else None)
                try:
                    call()
                    self._end_of_call.launch(stream)
                finally:
                    self._blocking_kernel.release()
                extras.append(after())
                del call  # before the next call is prepared: code may run when this one ends
                self._synchronize()
                self._recorder.off()
                if trial.queued:
                    self._blocking_kernel.require_in_time(len(extras))
        finally:
            self._recorder.off()
        recorded = self._recorder.take()
        self._was_interrupted = False
        marker_pieces = (self._eviction_pieces if trial.cold else 1) + trial.queued
        return attribute(recorded, self._stream_number, extras, marker_pieces, queued=trial.queued)
