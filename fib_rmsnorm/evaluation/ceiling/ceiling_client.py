"""The ceiling of each Workload, from the scheduler's side."""

from __future__ import annotations

import time
from contextlib import suppress

from pydantic import BaseModel, ValidationError

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation import CEILING
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.nvml import find_gpu
from fib_rmsnorm.registry import tensor_bytes
from fib_rmsnorm.sandbox.channel import Message
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import Process, ProcessDiedError, ProcessTimeoutError
from fib_rmsnorm.schema import Ceiling, Definition, Workload


class _Measured(Ceiling):
    ok: bool


class NoCeilingError(Exception):
    """The gauge could not measure; the message says why."""


class CeilingClient:
    """One device's gauge process."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self._fork_server = fork_server
        self._device = device
        self._config = config
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
                "cold": self._config.settings.l2 != "hot",
            }
        )
        try:
            return self._with_peak(_Measured.model_validate(answer))
        except ValidationError as error:
            raise NoCeilingError(f"the gauge's answer makes no sense: {error}") from None

    def _ask(self, request: Message) -> Message:
        if self._process is None or not self._process.alive:
            self._process = self._fork_server.spawn(CEILING)
        request = {**request, "device": self._device.name, "cache": str(cache_folder())}
        try:
            answer = self._process.request(request, time.monotonic() + self._config.timeout_s)
        except ProcessTimeoutError:
            raise NoCeilingError(f"the gauge took over {self._config.timeout_s:g} s") from None
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
