"""Time calls on a GPU with CUPTI's activity records, whatever streams they use."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.activity import ActivityRecorder
from fib_rmsnorm.evaluation.timing.attribution import attribute
from fib_rmsnorm.evaluation.timing.blocking_kernel import BlockingKernel
from fib_rmsnorm.evaluation.timing.cuda_driver import Synchronize, make_private_stream
from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat


class Cupti:
    """Times the kernels, copies and fills of each call, on any stream and from any thread.

    The device is idle before and after a call. Right before a call, we run a marker on our own stream: the eviction or
    a fill, and for a queued call a kernel that holds the call's stream until the host has issued it. The work between
    two markers belongs to the call. (Tracing API calls as well would tell which call launched what, but recording would
    take 0.5 ms longer per call.)

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
        self._stream_number: int | None = None
        """CUPTI's number for our stream; None while CUPTI is detached."""
        self._was_interrupted = False
        """Whether the last measurement ended before its records were taken."""

    def _attach(self) -> int:
        if self._stream_number is None:
            self._recorder.open()
            self._stream_number = self._find_stream_number()
        return self._stream_number

    def rest(self) -> None:
        """Detach CUPTI. The next measurement attaches it again, which takes 8 ms."""
        if self._stream_number is not None:
            self._synchronize()
            self._recorder.close()
            self._stream_number = None

    def _find_stream_number(self) -> int:
        self._recorder.on()
        self._mark_start(cold=False, queued=False)
        self._recorder.off()
        found = self._recorder.take()
        if len(found) != 1:
            raise MeasurementError(f"CUPTI recorded {len(found)} pieces of work; expected 1")
        return found[0].stream

    def _mark_start(self, *, cold: bool, queued: bool) -> None:
        with torch.cuda.stream(self._stream):
            if cold:
                self._evict()
            else:
                self._synchronize()
                self._marker.zero_()
        if queued:
            self._blocking_kernel.hold(self._stream)
            torch.cuda.current_stream().wait_stream(self._stream)
        else:
            self._synchronize()

    def measure(
        self,
        prepare: Prepare,
        calls: int,
        *,
        cold: bool,
        budget_s: float,
        after: After = lambda: 0,
        queued: bool = True,
    ) -> list[Sample]:
        """Time each call by itself."""
        stream_number = self._attach()
        if self._was_interrupted:
            self._recorder.take()  # discards what it recorded
        self._was_interrupted = True
        extras = []
        try:
            for index in repeat(calls, budget_s):
                call = prepare(index)
                self._recorder.on()
                self._mark_start(cold=cold, queued=queued)
                try:
                    call()
                finally:
                    self._blocking_kernel.release()
                extras.append(after())
                del call  # before the next call is prepared: code may run when this one ends
                self._synchronize()
                self._recorder.off()
                if queued:
                    self._blocking_kernel.require_in_time(len(extras))
        finally:
            self._recorder.off()
        recorded = self._recorder.take()
        self._was_interrupted = False
        return attribute(recorded, stream_number, extras)
