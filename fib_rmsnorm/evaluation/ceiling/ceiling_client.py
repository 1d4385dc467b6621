"""The scheduler's client of the ceiling process."""

import time
from contextlib import suppress

from fib_rmsnorm.building.cache import cache_folder, cache_variables, making_folders
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.evaluation import CEILING
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import BuildCopy, MeasureCeiling, StreamTraffic
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.nvml import find_gpu
from fib_rmsnorm.registry import tensor_bytes
from fib_rmsnorm.sandbox.asking import Answer, DeviceUnusableError, Done, Request, ask, require_device
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import NoAnswerError, Process
from fib_rmsnorm.schema import Ceiling, Definition, Workload


class NoCeilingError(Exception):
    """The ceiling could not be measured. The message says why."""


class CeilingClient:
    """Asks the ceiling process of one device, and replaces it if it dies."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self._fork_server = fork_server
        self._device = device
        self._config = config
        self._process: Process | None = None

    def build(self) -> None:
        """Have the copy compiled if necessary. A failure is reported when the ceiling is measured."""
        with suppress(NoCeilingError):
            self._ask(BuildCopy(device=self._device.name, cache=cache_folder()), Done)

    def measure(self, definition: Definition, workload: Workload) -> Ceiling:
        """Measure an empty kernel and a copy with the Workload's traffic. Raises NoCeilingError if that fails."""
        sizes = tensor_bytes(definition, workload)
        request = MeasureCeiling(
            device=self._device.name,
            cache=cache_folder(),
            traffic=StreamTraffic.of(
                [sizes.get(name, 0) for name in definition.inputs], [sizes.get(name, 0) for name in definition.outputs]
            ),
            cold=self._config.settings.l2 != "hot",
        )
        ceiling = self._ask(request, Ceiling)
        gpu = find_gpu(self._device.name)
        if gpu is None:
            return ceiling
        return ceiling.model_copy(update={"peak_bandwidth_gb_per_s": gpu.peak_bandwidth_gb_per_s()})

    def _ask(self, request: Request, kind: type[Answer]) -> Answer:
        try:
            if self._process is None or not self._process.alive:
                self._process = self._spawn()
                require_device(self._process, self._device, self._ask)
            return ask(self._process, request, kind, time.monotonic() + self._config.timeout_s)
        except DeviceUnusableError as error:
            raise NoCeilingError(str(error)) from None
        except NoAnswerError as error:
            raise NoCeilingError(f"the process that measures the copy {error}") from None
        except RefusalError as refused:
            raise NoCeilingError(f"measuring the copy failed: {str(refused).strip().splitlines()[-1]}") from None

    def _spawn(self) -> Process:
        builds = cache_folder().absolute() / "native"
        with making_folders():
            builds.mkdir(parents=True, exist_ok=True)
        variables = cache_variables(builds / "copy")
        return self._fork_server.spawn(CEILING, variables, readable=toolchain_paths(), writable=[builds])
