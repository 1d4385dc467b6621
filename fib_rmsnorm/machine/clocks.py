"""Clocks, temperature, load and other processes of a device: outside influences on a measurement."""

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from statistics import median

import psutil

from fib_rmsnorm.machine.nvml import ClockReading, Gpu, find_gpu
from fib_rmsnorm.schema import Clocks

_INTERVAL_S = 0.02


def read_clocks(device: str) -> ClockReading:
    """Read the current state of `cpu` or `cuda:N`."""
    if device == "cpu":
        with suppress(OSError, NotImplementedError, AttributeError):  # AttributeError: a platform without it
            frequency = psutil.cpu_freq()
            return ClockReading(clock_mhz=float(frequency.current) or None if frequency else None)
    gpu = find_gpu(device)
    return ClockReading() if gpu is None else replace(gpu.read_clocks(), compute_pids=gpu.compute_pids())


def count_strangers(before: ClockReading, now: ClockReading, ours: Collection[int]) -> int | None:
    """Count the processes on the GPU that are not ours; None if unknown.

    `before` was read before any of our processes used the GPU. If the driver's list contains our ids, every other id
    is a stranger. In a container the driver may list the host's ids, which we do not know: then only a process that
    was there before and still is, is certain to be a stranger.
    """
    if before.compute_pids is None or now.compute_pids is None:
        return None
    listed = set(now.compute_pids)
    if listed & set(ours):
        return len(listed - set(ours))
    return len(listed & set(before.compute_pids))


Load = tuple[float, float, float]


def other_share(before: Load | None, now: Load | None) -> float | None:
    """The share of the cores' time that was taken by others than this process and its descendants, if known."""
    if before is None or now is None:
        return None
    busy_s, ours_s, taken_s = (later - earlier for earlier, later in zip(before, now, strict=True))
    if taken_s <= 0:
        return None
    others_s, available_s = busy_s - ours_s, taken_s * len(os.sched_getaffinity(0))
    return round(min(1.0, max(0.0, others_s / available_s)), 3)


def read_load() -> Load | None:
    """Totals since the machine and the processes started, in seconds, and the time now; None if they are hidden.

    Busy time of the cores that this process may use, including what a hypervisor took of them; and CPU time of this
    process and its descendants, with those that have ended.
    """
    with suppress(OSError, psutil.Error, IndexError):  # IndexError: a container that hides cores
        cores = psutil.cpu_times(percpu=True)
        busy_s = sum(sum(cores[core][:8]) - cores[core].idle - cores[core].iowait for core in os.sched_getaffinity(0))
        process, ours_s = psutil.Process(), 0.0
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):  # ended meanwhile: its parent has its time
                ours_s += sum(each.cpu_times()[:4])
        return busy_s, ours_s, time.monotonic()
    return None


class ClockWatch:
    """The clocks of a device before, during and after the trials on a Workload, and what else ran there.

    Samples a GPU's clocks in the background while entered. Reads a CPU's only on entering and leaving: sampling would
    take time of the cores that are measured.
    """

    def __init__(self, device: str, at_start: ClockReading) -> None:
        """`at_start` is the reading from before any process of this run used the device."""
        self._device = device
        self._at_start = at_start
        self._readings: list[ClockReading] = []
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "ClockWatch":
        self._before = read_clocks(self._device)
        if gpu := find_gpu(self._device):
            self._thread = threading.Thread(target=self._sample_until_left, args=(gpu,), daemon=True)
            self._thread.start()
        self._load = read_load() if self._device == "cpu" else None
        return self

    def __exit__(self, *_: object) -> None:
        self._load_after = read_load() if self._device == "cpu" else None
        if self._thread is not None:
            self._leaving.set()
            self._thread.join()
        self._after = read_clocks(self._device)
        if self._device == "cpu":
            self._readings = [self._before, self._after]

    def _sample_until_left(self, gpu: Gpu) -> None:
        while True:
            self._readings.append(gpu.read_clocks())
            if self._leaving.wait(_INTERVAL_S):
                return

    def summary(self) -> Clocks:
        """Summarize the readings; call it after leaving."""
        clocks = [each.clock_mhz for each in self._readings if each.clock_mhz is not None]
        memory = [each.memory_clock_mhz for each in self._readings if each.memory_clock_mhz is not None]
        temperatures = [each.temperature_c for each in self._readings if each.temperature_c is not None]
        ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        reasons = [each.throttle_reasons for each in self._readings if each.throttle_reasons is not None]
        return Clocks(
            before_mhz=self._before.clock_mhz,
            during_mhz=median(clocks) if clocks else None,
            after_mhz=self._after.clock_mhz,
            during_min_mhz=min(clocks, default=None),
            during_max_mhz=max(clocks, default=None),
            memory_mhz=min(memory, default=None),
            max_temperature_c=max(temperatures, default=None),
            throttle_reasons=sorted(set().union(*reasons)) if reasons else None,
            other_processes=count_strangers(self._at_start, self._after, ours),
            other_share=other_share(self._load, self._load_after),
        )
