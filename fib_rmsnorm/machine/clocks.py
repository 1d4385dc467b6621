"""Clocks, temperature and company of a device: what moves a measurement from outside."""

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
    """A device at one moment; None is what cannot be told."""

    clock_mhz: float | None = None
    """Of the multiprocessors, or the cores on CPU."""
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    compute_pids: tuple[int, ...] | None = None
    """The processes on the GPU, by the driver's ids: see count_strangers."""


@dataclass(frozen=True)
class ClockSummary:
    """A device over a measurement; None is what cannot be told."""

    samples: int = 0
    clock_min_mhz: float | None = None
    clock_median_mhz: float | None = None
    clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    """The lowest seen."""
    max_temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """All that were seen."""


def read_clocks(device: str) -> ClockReading:
    """Read all that can be told of `cpu` or `cuda:N` now."""
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
    """This process and all that descend from it."""
    process = psutil.Process()
    return {os.getpid(), *(child.pid for child in process.children(recursive=True))}


def count_strangers(before: ClockReading, now: ClockReading, ours: Collection[int]) -> int | None:
    """How many processes other than ours are on the GPU; None if that cannot be told.

    `before` was read before any of ours was on it. Where the driver lists some of ours by the ids that we know
    them by, all that is not ours is strange. In a container it may list them by the host's ids: then what was
    there before and still is cannot be ours, and of the rest nothing is known.
    """
    if before.compute_pids is None or now.compute_pids is None:
        return None
    listed = set(now.compute_pids)
    if listed & set(ours):
        return len(listed - set(ours))
    return len(listed & set(before.compute_pids))


class ClockMonitor:
    """Samples a GPU's clocks in the background while entered; a CPU's only when entered and left.

    Reading a CPU's clocks would take the time of the cores that are measured.
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
            self._thread = threading.Thread(target=self._tamper_check, args=(gpu,), daemon=True)
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

    def _tamper_check(self, gpu: Gpu) -> None:
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
        """Sum up what was read; call it after leaving."""
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
