"""What other processes took of a CPU's cores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class _Reading:
    """Totals since the machine and the processes started."""

    busy_s: float
    """Busy time of the cores that this process may use, including what a hypervisor took of them."""
    ours_s: float
    at_s: float


class LoadWatch:
    """Reads the load on entering and leaving."""

    def __enter__(self) -> LoadWatch:
        self._before = _read()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _read()

    def other_share(self) -> float | None:
        """The share of the cores' time that was taken by others than this process and its descendants, if known."""
        before, after = self._before, self._after
        if before is None or after is None or after.at_s <= before.at_s:
            return None
        others_s = (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)
        available_s = (after.at_s - before.at_s) * len(os.sched_getaffinity(0))
        return round(min(1.0, max(0.0, others_s / available_s)), 3)


def _read() -> _Reading | None:
    with suppress(OSError, psutil.Error, IndexError):  # IndexError: a container that hides cores
        cores = psutil.cpu_times(percpu=True)
        busy_s = sum(sum(cores[core][:8]) - cores[core].idle - cores[core].iowait for core in os.sched_getaffinity(0))
        return _Reading(busy_s, sum(_own_seconds()), time.monotonic())
    return None


def _own_seconds() -> Iterator[float]:
    """CPU seconds of this process and its descendants, with those that have ended."""
    process = psutil.Process()
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):  # ended meanwhile: its parent has its time
            yield sum(each.cpu_times()[:4])
