"""GPU time by CUPTI: the activity records of what each call ran, on any stream."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.activity import ActivityRecorder
from fib_rmsnorm.evaluation.timing.attribution import attribute
from fib_rmsnorm.evaluation.timing.cuda_driver import make_private_stream
from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat


class Cupti:
    """The kernels, copies and fills that each call ran, on whatever stream, launched by whatever thread.

    The device is idle before and after a call. Right before it runs something of ours on a stream of its own, the
    eviction or a fill: what runs from there to the next such is the call's. (To trace API calls too would tell which
    call launched what, and make every call 0.5 ms slower to record.)

    CUPTI is on from there to the call's end. What it records right after it was off reads short: the very first work by
    up to 0.3 us (seen on an H200, where time stamps taken inside the kernel stayed as they were), and what follows a
    tiny first one still by 0.03 us. Behind the eviction a call reads as if CUPTI had always been on.

    Once it was on, it costs the host 0.5 us of every launch, also while it is off: `rest` detaches it.
    """

    name = "cupti"
    tick_ms = 32e-6  # the GPU's clock, seen on an H200

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)
        self._pebble = torch.empty((), dtype=torch.int32, device=device)
        self._recorder = ActivityRecorder()
        self._stream = make_private_stream(device)
        self._stream_number: int | None = None
        """What CUPTI calls our stream; None while it is detached."""

    def _wake(self) -> int:
        if self._stream_number is None:
            self._recorder.open()
            self._stream_number = self._find_stream_number()
        return self._stream_number

    def rest(self) -> None:
        """Detach CUPTI; the next measurement attaches it again, which takes 8 ms."""
        if self._stream_number is not None:
            torch.cuda.synchronize()
            self._recorder.close()
            self._stream_number = None

    def _find_stream_number(self) -> int:
        self._recorder.on()
        self._lead_in(cold=False)
        self._recorder.off()
        found = self._recorder.take()
        if len(found) != 1:
            raise MeasurementError(f"CUPTI recorded {len(found)} pieces of work where there was one")
        return found[0].stream

    def _lead_in(self, *, cold: bool) -> None:
        with torch.cuda.stream(self._stream):
            if cold:
                self._evict()
            else:
                torch.cuda.synchronize()
                self._pebble.zero_()
        torch.cuda.synchronize()

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself."""
        stream_number = self._wake()
        self._recorder.take()  # of a measurement that was broken off
        extras = []
        try:
            for index in repeat(calls, budget_s):
                call = prepare(index)
                self._recorder.on()
                self._lead_in(cold=cold)
                call()
                extras.append(after())
                del call  # not when the next call is prepared: somebody may wait for its end
                torch.cuda.synchronize()
                self._recorder.off()
        finally:
            self._recorder.off()
        return attribute(self._recorder.take(), stream_number, extras)
