"""GPU time by CUPTI: the activity records of what each call ran, on any stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from cupti import cupti

from fib_rmsnorm.evaluation.timing.attribution import Piece, attribute
from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, repeat

_BUFFER_BYTES = 8 << 20
_KINDS = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)
_FORCED_FLUSH = 1


def _record(switch: Callable[[Any], None]) -> None:
    for kind in _KINDS:
        switch(kind)


class Cupti:
    """The kernels, copies and fills that each call ran, on whatever stream, launched by whatever thread.

    The device is idle before and after a call, and right before it runs a kernel of ours that marks it: what runs from
    there to the next mark is the call's. (To trace API calls too would tell which call launched what, and make every
    call 0.5 ms slower to record.)

    Each record costs 26 us to read, so CUPTI is on only around the call and its marker. The marker also leads the
    call in: the first work that CUPTI records after it was off reads up to 0.3 us short (seen on an H200, where
    time stamps taken inside the kernel stayed as they were); the second reads as if it had always been on.
    """

    name = "cupti"
    tick_ms = 32e-6  # the GPU's clock, seen on an H200

    def __init__(self, device: str) -> None:
        self._evict = L2Eviction(device)
        self._work: list[Piece] = []
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._collect)
        self._marker = self._learn_marker()

    def _collect(self, activities: list[Any]) -> None:
        self._work += [
            Piece(activity.start, activity.end, getattr(activity, "name", None) or "")
            for activity in activities
            if activity.kind in _KINDS
        ]

    def _learn_marker(self) -> str:
        """The name of the marker's kernel."""
        _record(cupti.activity_enable)
        _mark()
        torch.cuda.synchronize()
        _record(cupti.activity_disable)
        cupti.activity_flush_all(_FORCED_FLUSH)
        names = {piece.name for piece in self._work}
        if len(names) != 1 or "" in names:
            raise MeasurementError(f"CUPTI recorded {sorted(names)} of one kernel")
        return names.pop()

    def measure(
        self, prepare: Prepare, calls: int, *, cold: bool, budget_s: float, after: After = lambda: 0
    ) -> list[Sample]:
        """Time each call by itself."""
        self._work.clear()
        extras = []
        try:
            for index in repeat(calls, budget_s):
                call = prepare(index)
                if cold:
                    self._evict()
                torch.cuda.synchronize()
                _record(cupti.activity_enable)
                _mark()
                torch.cuda.synchronize()
                call()
                extras.append(after())
                torch.cuda.synchronize()
                _record(cupti.activity_disable)
            cupti.activity_flush_all(_FORCED_FLUSH)
        finally:
            _record(cupti.activity_disable)
        return attribute(self._work, self._marker, extras)


def _mark() -> None:
    """Run a kernel that nobody else does: torch's that spins."""
    torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
