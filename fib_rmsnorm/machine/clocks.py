"""Clocks, temperature and other processes of a device: outside influences on a measurement."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from types import TracebackType

import psutil

from fib_rmsnorm.machine.nvml import Gpu, find_gpu

_INTERVAL_S = 0.02


@dataclass(frozen=True)
class ClockReading:
    """The state of a device at one moment; None means unknown."""

    clock_mhz: float | None = None
    """The clock of a GPU's multiprocessors, or of a CPU's cores."""
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    compute_pids: tuple[int, ...] | None = None
    """The driver's ids of the processes on the GPU: see count_strangers."""


@dataclass(frozen=True)
class ClockSummary:
    """The state of a device during a measurement; None means unknown."""

    samples: int = 0
    clock_min_mhz: float | None = None
    clock_median_mhz: float | None = None
    clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    """The lowest clock of the memory."""
    max_temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """All reasons of all readings."""


def read_clocks(device: str) -> ClockReading:
    """Read the current state of `cpu` or `cuda:N`."""
    if device == "cpu":
        return ClockReading(clock_mhz=_cpu_clock_mhz())
    gpu = find_gpu(device)
    if gpu is None:
        return ClockReading()
    return ClockReading(
        clock_mhz=gpu.clock_mhz(),
        memory_clock_mhz=gpu.memory_clock_mhz(),
        temperature_c=gpu.temperature_c(),
        power_w=gpu.power_w(),
        throttle_reasons=gpu.throttle_reasons(),
        compute_pids=gpu.compute_pids(),
    )


def _cpu_clock_mhz() -> float | None:
    with suppress(OSError, NotImplementedError, AttributeError):  # AttributeError: a platform without it
        frequency = psutil.cpu_freq()
        return float(frequency.current) or None if frequency else None
    return None


def our_pids() -> set[int]:
    """The ids of this process and all its descendants."""
    process = psutil.Process()
    return {os.getpid(), *(child.pid for child in process.children(recursive=True))}


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


class ClockMonitor:
    """Samples a GPU's clocks in the background while entered; reads a CPU's clocks only on entering and leaving.

    Sampling a CPU's clocks would take time of the cores that are measured.
    """

    def __init__(self, device: str, interval_s: float = _INTERVAL_S) -> None:
        self._device = device
        self._interval_s = interval_s
        self._readings: list[ClockReading] = []
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ClockMonitor:
        gpu = find_gpu(self._device)
        if gpu is not None:
            self._thread = threading.Thread(target=self._sample, args=(gpu,), daemon=True)
            self._thread.start()
        elif self._device == "cpu":
            self._readings.append(read_clocks("cpu"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._leaving.set()
            self._thread.join()
        elif self._device == "cpu":
            self._readings.append(read_clocks("cpu"))

    def _sample(self, gpu: Gpu) -> None:
        while True:
            self._readings.append(
                ClockReading(
                    clock_mhz=gpu.clock_mhz(),
                    memory_clock_mhz=gpu.memory_clock_mhz(),
                    temperature_c=gpu.temperature_c(),
                    throttle_reasons=gpu.throttle_reasons(),
                )
            )
            if self._leaving.wait(self._interval_s):
                return

    def summary(self) -> ClockSummary:
        """Summarize the readings; call it after leaving."""
        readings = list(self._readings)
        clocks = [r.clock_mhz for r in readings if r.clock_mhz is not None]
        reasons = [r.throttle_reasons for r in readings if r.throttle_reasons is not None]
        return ClockSummary(
            samples=len(readings),
            clock_min_mhz=min(clocks, default=None),
            clock_median_mhz=median(clocks) if clocks else None,
            clock_max_mhz=max(clocks, default=None),
            memory_clock_mhz=min(
                (r.memory_clock_mhz for r in readings if r.memory_clock_mhz is not None), default=None
            ),
            max_temperature_c=max((r.temperature_c for r in readings if r.temperature_c is not None), default=None),
            throttle_reasons=tuple(sorted({word for words in reasons for word in words})) if reasons else None,
        )
