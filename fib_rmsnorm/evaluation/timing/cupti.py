"""GPU time by CUPTI: the activity records of what each call ran, on any stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from cupti import cupti

from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import MeasurementError, repeat
from fib_rmsnorm.schema import Settings

_BUFFER_BYTES = 8 << 20
_API_KINDS = (cupti.ActivityKind.RUNTIME, cupti.ActivityKind.DRIVER)
_WORK_KINDS = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)


@dataclass(frozen=True)
class _Work:
    start: int
    end: int
    correlation_id: int


class Cupti:
    """The span from the first start to the last end of the device work that each call launched."""

    name = "cupti"
    cold_l2 = True

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

    def measure(self, call: Callable[[], object], settings: Settings) -> list[float]:
        """Time each call by itself, with L2 evicted before."""
        for _ in repeat(settings.warmup_runs):
            call()
            torch.cuda.synchronize()
        samples = []
        for _ in range(settings.num_trials):
            samples += self._measure_trial(call, settings.iterations)
        return samples

    def _measure_trial(self, call: Callable[[], object], iterations: int) -> list[float]:
        self._launches.clear()
        self._work.clear()
        windows: list[tuple[int, int]] = []
        for kind in (*_API_KINDS, *_WORK_KINDS):
            cupti.activity_enable(kind)
        try:
            for _ in repeat(iterations):
                self._evict()
                torch.cuda.synchronize()
                begin = cupti.get_timestamp()
                call()
                end = cupti.get_timestamp()
                torch.cuda.synchronize()
                windows.append((begin, end))
            cupti.activity_flush_all(1)
        finally:
            for kind in (*_API_KINDS, *_WORK_KINDS):
                cupti.activity_disable(kind)
        return self._attribute(windows)

    def _attribute(self, windows: list[tuple[int, int]]) -> list[float]:
        """Give each piece of work to the call during which it was launched."""
        begins = [begin for begin, _ in windows]
        spans: list[tuple[int, int] | None] = [None] * len(windows)
        for work in self._work:
            launched = self._launches.get(work.correlation_id)
            if launched is None:
                raise MeasurementError("CUPTI lost the record of a launch")
            index = bisect_right(begins, launched) - 1
            if index < 0 or launched > windows[index][1]:
                continue  # the eviction, not the call
            first, last = spans[index] or (work.start, work.end)
            spans[index] = (min(first, work.start), max(last, work.end))
        idle = spans.count(None)
        if idle:
            raise MeasurementError(f"CUPTI recorded no device work for {idle} of {len(windows)} timed calls")
        return [(span[1] - span[0]) / 1e6 for span in spans if span]
