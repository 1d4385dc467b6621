"""Read a GPU's state through NVML, if nvidia-ml-py and the driver are installed."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from fib_rmsnorm.machine.devices import find_properties

_BYTES_PER_BIT_AND_CLOCK = 2 / 8  # all memories that NVML reports on are double data rate

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


@dataclass(frozen=True)
class ClockReading:
    """The state of a device at one moment; None means unknown."""

    clock_mhz: float | None = None
    """The clock of a GPU's multiprocessors, or of a CPU's cores."""
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    compute_pids: tuple[int, ...] | None = None
    """The driver's ids of the processes on the GPU: see count_strangers."""


class Gpu:
    """Reads one GPU's state; a value is None if the driver does not report it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def _read(self, function: str, *arguments: Any) -> Any:
        with suppress(self._nvml.NVMLError):
            return getattr(self._nvml, function)(self._handle, *arguments)
        return None

    def read_clocks(self) -> ClockReading:
        """The current state, without the processes: to list these takes longer."""
        bits = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        return ClockReading(
            clock_mhz=self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM),
            temperature_c=self._read("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=None if bits is None else tuple(word for bit, word in _REASONS.items() if bits & bit),
        )

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
        return clock_mhz * bus_bits * _BYTES_PER_BIT_AND_CLOCK / 1e3 if clock_mhz and bus_bits else None


@cache
def find_gpu(device: str) -> Gpu | None:
    """Find torch's `cuda:N` in NVML; None for the CPU, or if NVML or its entry for the GPU is missing."""
    properties = find_properties(device)
    if properties is None:
        return None
    try:
        import pynvml
    except ImportError:
        return None
    # By its identity: CUDA_VISIBLE_DEVICES renumbers torch's GPUs, but not NVML's. A slice of a GPU has its own UUID.
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        with suppress(pynvml.NVMLError):
            return Gpu(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}"))
        domain, bus, slot = properties.pci_address
        return Gpu(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(f"{domain:08x}:{bus:02x}:{slot:02x}.0"))
    return None
