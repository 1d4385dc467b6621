"""Read a GPU's state through NVML, if nvidia-ml-py and the driver are installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from fib_rmsnorm.machine.cuda_properties import find_properties

Value = TypeVar("Value")

_BITS_PER_BYTE = 8
_TRANSFERS_PER_CLOCK = 2  # all memories that NVML reports on are double data rate
_BYTES_PER_UNIT = _TRANSFERS_PER_CLOCK / _BITS_PER_BYTE

# nvmlClocksEventReason* of nvml.h, without bit 0: an idle GPU lowers its clocks, but nothing throttles it.
_REASONS = {
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}


class Gpu:
    """Reads one GPU's state; a value is None if the driver does not report it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def _read(self, function: str, *arguments: Any) -> Any:
        # AttributeError: this version of nvidia-ml-py lacks the function.
        with suppress(self._nvml.NVMLError, AttributeError):
            return getattr(self._nvml, function)(self._handle, *arguments)
        return None

    def clock_mhz(self) -> int | None:
        """The clock of the multiprocessors."""
        return _as(int, self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM))

    def memory_clock_mhz(self) -> int | None:
        """The clock of the memory."""
        return _as(int, self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM))

    def temperature_c(self) -> int | None:
        """The temperature of the die."""
        return _as(int, self._read("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU))

    def power_w(self) -> float | None:
        """The power draw of the board."""
        milliwatts = _as(float, self._read("nvmlDeviceGetPowerUsage"))
        return None if milliwatts is None else milliwatts / 1e3

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """The reasons why the clocks are throttled."""
        bits = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:  # the function's name before driver 535
            bits = self._read("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if bits is None else tuple(word for bit, word in _REASONS.items() if bits & bit)

    def compute_pids(self) -> tuple[int, ...] | None:
        """The driver's ids of processes with a compute context; in a container these are the host's ids."""
        processes = self._read("nvmlDeviceGetComputeRunningProcesses")
        return None if processes is None else tuple(sorted(process.pid for process in processes))

    def free_memory_bytes(self) -> int | None:
        """The memory that no process has taken."""
        memory = self._read("nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.free)

    def peak_bandwidth_gb_per_s(self) -> float | None:
        """The bandwidth that the memory's highest clock and its bus width allow."""
        clock_mhz = self._read("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_MEM)
        bus_bits = self._read("nvmlDeviceGetMemoryBusWidth")
        return clock_mhz * bus_bits * _BYTES_PER_UNIT / 1e3 if clock_mhz and bus_bits else None


def _as(kind: Callable[[Any], Value], value: Any) -> Value | None:
    return None if value is None else kind(value)


@cache
def find_gpu(device: str) -> Gpu | None:
    """Find torch's `cuda:N` in NVML; None for the CPU, or if NVML or its entry for the GPU is missing."""
    if device == "cpu":
        return None
    try:
        import pynvml
    except ImportError:
        return None
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return _match(pynvml, device)
    return None


def _match(nvml: Any, device: str) -> Gpu | None:
    """Find the GPU by its identity: CUDA_VISIBLE_DEVICES renumbers torch's GPUs, but not NVML's."""
    properties = find_properties(device)
    if properties is None:
        return None
    if properties.uuid:
        with suppress(nvml.NVMLError):
            return Gpu(nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}"))
    domain, bus, slot = properties.pci_address  # a slice of a GPU has a UUID of its own
    with suppress(nvml.NVMLError):
        return Gpu(nvml, nvml.nvmlDeviceGetHandleByPciBusId(f"{domain:08x}:{bus:02x}:{slot:02x}.0"))
    return None
