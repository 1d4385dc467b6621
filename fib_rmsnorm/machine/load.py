"""What other processes took of a CPU's cores, and how often they took one from us."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class CpuLoad:
    """The load during a measurement; None means unknown."""

    other_share: float | None = None
    """The share of the cores' time that neither this process and its descendants took, nor nobody."""
    involuntary_switches: int | None = None
    """How often the system took a core from this process or a descendant that had more to do."""


@dataclass(frozen=True)
class _Reading:
    """Totals since the machine and the processes started."""

    busy_s: float
    """Busy time of the cores that this process may use, including what a hypervisor took of them."""
    ours_s: float
    switches: int
    at_s: float


class LoadWatch:
    """Reads the load on entering and leaving."""

    def __enter__(self) -> LoadWatch:
        self._before = _read()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _read()

    def summary(self) -> CpuLoad:
        """The load between entering and leaving."""
        before, after = self._before, self._after
        if before is None or after is None or after.at_s <= before.at_s:
            return CpuLoad()
        others_s = (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)
        available_s = (after.at_s - before.at_s) * len(os.sched_getaffinity(0))
        share = min(1.0, max(0.0, others_s / available_s))
        return CpuLoad(round(share, 3), max(0, after.switches - before.switches))


def _read() -> _Reading | None:
    with suppress(OSError, psutil.Error, IndexError):  # IndexError: a container that hides cores
        cores = psutil.cpu_times(percpu=True)
        busy_s = sum(sum(cores[core][:8]) - cores[core].idle - cores[core].iowait for core in os.sched_getaffinity(0))
        found = [*_own_times()]
        return _Reading(busy_s, sum(s for s, _ in found), sum(n for _, n in found), time.monotonic())
    return None


def _own_times() -> Iterator[tuple[float, int]]:
    """CPU seconds and involuntary switches of this process and its descendants, with those that have ended."""
    process = psutil.Process()
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):  # ended meanwhile: its parent has its time
            yield sum(each.cpu_times()[:4]), each.num_ctx_switches().involuntary
