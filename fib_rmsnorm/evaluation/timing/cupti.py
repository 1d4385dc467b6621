"""GPU time by CUPTI: the activity records of what each call ran, on any stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from cupti import cupti

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat

_BUFFER_BYTES = 8 << 20
_KINDS = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)
_FORCED_FLUSH = 1
_LONGEST_LEAD_NS = 100_000


@dataclass
class _Window:
    """The time of one call, from an idle device to an idle device, and the work in it: (start, end) of each piece."""

    begin_ns: int
    end_ns: int
    extra: int
    """Pieces at its end that are ours: a look at the outputs, behind the call on its stream."""
    work: list[tuple[int, int]] = field(default_factory=list)

    def own_work(self) -> list[tuple[int, int]]:
        return sorted(self.work)[: len(self.work) - self.extra]

    def to_sample(self) -> Sample:
        work = self.own_work()
        last = max(end for _, end in work)
        busy = sum(end - start for start, end in work)
        return Sample((last - work[0][0]) / 1e6, busy / 1e6, len(work))


def _record(switch: Callable[[Any], None]) -> None:
    for kind in _KINDS:
        switch(kind)


class Cupti:
    """The kernels, copies and fills that each call ran, on whatever stream, launched by whatever thread.

    The device is idle when a call begins and when its window ends, so what ran in between is the call's. CUPTI
    gives the times of device and host on one clock, and a piece is placed by its middle, microseconds away from
    the window's ends. (To trace API calls too would tell which call launched what, and make every call 0.5 ms
    slower to record.)

    Each record costs 26 us to read, so CUPTI is on only around the call and a piece of ours that leads it in. That
    piece must be there: the first work that CUPTI records after it was off reads up to 0.3 us short (seen on an
    H200, where time stamps taken inside the kernel stayed as they were); the second reads as if it had always been on.
    """

    name = "cupti"
    tick_ms = 32e-6  # the GPU's clock, seen on an H200

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)
        self._pebble = torch.empty((), dtype=torch.int32, device=device)
        self._work: list[tuple[int, int]] = []
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._collect)

    def _collect(self, activities: list[Any]) -> None:
        self._work += [(activity.start, activity.end) for activity in activities if activity.kind in _KINDS]

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself."""
        self._work.clear()
        windows = []
        try:
            for index in repeat(calls, budget_s):
                call = prepare(index)
                _record(cupti.activity_enable)
                self._lead_in(cold=cold)
                begin_ns = cupti.get_timestamp()
                call()
                extra = after()
                torch.cuda.synchronize()
                windows.append(_Window(begin_ns, cupti.get_timestamp(), extra))
                _record(cupti.activity_disable)
            cupti.activity_flush_all(_FORCED_FLUSH)
        finally:
            _record(cupti.activity_disable)
        self._attribute(windows)
        return [window.to_sample() for window in windows]

    def _lead_in(self, *, cold: bool) -> None:
        if cold:
            self._evict()
        else:
            self._pebble.zero_()
        torch.cuda.synchronize()

    def _attribute(self, windows: list[_Window]) -> None:
        """Give each piece of work to the call in whose window it ran."""
        begins = [window.begin_ns for window in windows]
        between = []  # the lead-ins, if all is well
        for start, end in self._work:
            middle = (start + end) // 2
            index = bisect_right(begins, middle) - 1
            if index >= 0 and middle <= windows[index].end_ns:
                windows[index].work.append((start, end))
            else:
                between.append(end)
        idle = sum(not window.own_work() for window in windows)
        if idle:
            leads = [begin - end for begin in begins for end in between if 0 < begin - end < _LONGEST_LEAD_NS]
            lead = f", the last of them {median(leads) / 1e3:.1f} us before the calls" if leads else ""
            raise MeasurementError(
                f"CUPTI recorded no device work for {idle} of {len(windows)} timed calls"
                f" ({len(self._work)} records, {len(between)} of them between calls{lead})",
                len(windows),
            )
