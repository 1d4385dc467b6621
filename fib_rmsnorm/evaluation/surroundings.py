"""What is measured around the solutions: the ceiling of each Workload, and the device's clocks."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from fib_rmsnorm.evaluation.building.cache import cache_folder
from fib_rmsnorm.evaluation.channel import Message
from fib_rmsnorm.evaluation.clocks import ClockMonitor, ClockReading, count_strangers, our_pids, read_clocks
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.nvml import find_gpu
from fib_rmsnorm.evaluation.process import Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.evaluation.spawning import Zygote
from fib_rmsnorm.evaluation.workers import Terms
from fib_rmsnorm.registry import tensor_bytes
from fib_rmsnorm.schema import Ceiling, Clocks, Definition, Workload


class _Measured(Ceiling):
    ok: bool


class NoCeilingError(Exception):
    """The gauge could not measure; the message says why."""


class CeilingGauge:
    """One device's gauge process."""

    def __init__(self, zygote: Zygote, device: Device, terms: Terms) -> None:
        self._zygote = zygote
        self._device = device
        self._terms = terms
        self._process: Process | None = None

    def build(self) -> None:
        """Have the copy compiled, if it is not yet; if that fails, measuring says so."""
        with suppress(NoCeilingError):
            self._ask({"do": "build"})

    def measure(self, definition: Definition, workload: Workload) -> Ceiling:
        """Measure an empty kernel and a copy of the Workload's bytes. Raises NoCeilingError if that fails."""
        sizes = tensor_bytes(definition, workload)
        answer = self._ask(
            {
                "do": "measure",
                "bytes_read": sum(sizes.get(name, 0) for name in definition.inputs),
                "bytes_written": sum(sizes.get(name, 0) for name in definition.outputs),
                "cold": self._terms.settings.l2 != "hot",
            }
        )
        try:
            return self._with_peak(_Measured.model_validate(answer))
        except ValidationError as error:
            raise NoCeilingError(f"the gauge's answer makes no sense: {error}") from None

    def _ask(self, request: Message) -> Message:
        if self._process is None or not self._process.alive:
            self._process = self._zygote.spawn("gauge")
        request = {**request, "device": self._device.name, "cache": str(cache_folder())}
        try:
            answer = self._process.request(request, time.monotonic() + self._terms.timeout_s)
        except ProcessTimeoutError:
            raise NoCeilingError(f"the gauge took over {self._terms.timeout_s:g} s") from None
        except ProcessDiedError as error:
            raise NoCeilingError(f"the gauge {error}") from None
        if not answer["ok"]:
            raise NoCeilingError(f"the gauge failed: {str(answer['message']).strip().splitlines()[-1]}")
        return answer

    def _with_peak(self, measured: BaseModel) -> Ceiling:
        ceiling = Ceiling.model_validate(measured.model_dump(exclude={"ok"}))
        gpu = None if self._device.kind == "cpu" else find_gpu(self._device.name)
        if gpu is not None:
            ceiling.peak_bandwidth_gb_per_s = gpu.peak_bandwidth_gb_per_s()
        return ceiling


@dataclass
class ClockWatch:
    """The clocks before, during and after the trials on a Workload."""

    device: str
    at_start: ClockReading
    """Read before any process of this run was on the device."""

    def __enter__(self) -> ClockWatch:
        self._before = read_clocks(self.device)
        self._monitor = ClockMonitor(self.device)
        self._monitor.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._monitor.__exit__(None, None, None)
        self._after = read_clocks(self.device)

    def summary(self) -> Clocks:
        """What was seen; call it after leaving."""
        during = self._monitor.summary()
        return Clocks(
            before_mhz=self._before.clock_mhz,
            during_mhz=during.clock_median_mhz,
            after_mhz=self._after.clock_mhz,
            during_min_mhz=during.clock_min_mhz,
            during_max_mhz=during.clock_max_mhz,
            memory_mhz=during.memory_clock_mhz,
            max_temperature_c=during.max_temperature_c,
            throttle_reasons=None if during.throttle_reasons is None else list(during.throttle_reasons),
            other_processes=count_strangers(self.at_start, self._after, our_pids()),
        )
