"""GPU time by CUPTI: the activity records of what each call ran, on any stream."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import torch
from cupti import cupti

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat

_BUFFER_BYTES = 8 << 20
_API_KINDS = (cupti.ActivityKind.RUNTIME, cupti.ActivityKind.DRIVER)
_WORK_KINDS = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)
_FORCED_FLUSH = 1


@dataclass(frozen=True)
class _Work:
    start_ns: int
    end_ns: int
    correlation_id: int


@dataclass
class _Window:
    """The host's time of one call, and the work launched during it."""

    begin_ns: int
    end_ns: int
    work: list[_Work] = field(default_factory=list)

    def to_sample(self) -> Sample:
        start = min(work.start_ns for work in self.work)
        end = max(work.end_ns for work in self.work)
        busy = sum(work.end_ns - work.start_ns for work in self.work)
        return Sample((end - start) / 1e6, busy / 1e6, len(self.work))


class Cupti:
    """The kernels, copies and fills that each call launched, on whatever stream."""

    name = "cupti"

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)
        self._launches: dict[int, int] = {}  # correlation id -> host time of the API call
        self._work: list[_Work] = []
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._collect)

    def _collect(self, activities: list[Any]) -> None:
        for activity in activities:
            if activity.kind in _API_KINDS:
                self._launches[activity.correlation_id] = activity.start
            elif activity.kind in _WORK_KINDS:
                self._work.append(_Work(activity.start, activity.end, activity.correlation_id))

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: None
    ) -> list[Sample]:
        """Time each call by itself."""
        self._launches.clear()
        self._work.clear()
        windows = []
        for kind in (*_API_KINDS, *_WORK_KINDS):
            cupti.activity_enable(kind)
        try:
            for index in repeat(calls, budget_s):
                call = prepare(index)
                if cold:
                    self._evict()
                torch.cuda.synchronize()
                begin_ns = cupti.get_timestamp()
                call()
                end_ns = cupti.get_timestamp()
                after()
                torch.cuda.synchronize()
                windows.append(_Window(begin_ns, end_ns))
            cupti.activity_flush_all(_FORCED_FLUSH)
        finally:
            for kind in (*_API_KINDS, *_WORK_KINDS):
                cupti.activity_disable(kind)
        self._attribute(windows)
        return [window.to_sample() for window in windows]

    def _attribute(self, windows: list[_Window]) -> None:
        """Give each piece of work to the call during which it was launched."""
        begins = [window.begin_ns for window in windows]
        for work in self._work:
            launched_ns = self._launches.get(work.correlation_id)
            if launched_ns is None:
                raise MeasurementError("CUPTI lost the record of a launch")
            index = bisect_right(begins, launched_ns) - 1
            if index >= 0 and launched_ns <= windows[index].end_ns:  # else the stage's setting, not the call
                windows[index].work.append(work)
        idle = sum(not window.work for window in windows)
        if idle:
            raise MeasurementError(f"CUPTI recorded no device work for {idle} of {len(windows)} timed calls")
