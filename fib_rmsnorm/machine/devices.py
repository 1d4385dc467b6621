"""The devices of this machine, with the names that Traces record."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind

# The last is that of Windows' driver, in WSL.
_DRIVER_SIGNS = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")


@dataclass(frozen=True)
class Device:
    """A device that evaluations can run on."""

    name: str
    """torch's name: `cpu`, `cuda:0`, ..."""
    hardware: str
    """The model's name in Traces: `NVIDIA H200`, `Intel(R) Xeon(R) Processor (2 cores)`."""
    memory_bytes: int

    @property
    def kind(self) -> DeviceKind:
        """`cpu` or `cuda`."""
        return "cpu" if self.name == "cpu" else "cuda"


def cpu_device() -> Device:
    """The CPU, with the number of cores that this process may use."""
    cores = len(psutil.Process().cpu_affinity())
    return Device("cpu", f"{_cpu_model()} ({cores} core{'s' * (cores != 1)})", psutil.virtual_memory().total)


def cpu_flags() -> frozenset[str]:
    """The processor's features by Linux's names, such as `avx2`; empty if they are unknown."""
    return frozenset((_from_cpuinfo("flags") or _from_cpuinfo("Features")).split())


def _cpu_model() -> str:
    return _from_cpuinfo("model name") or platform.machine()


def _from_cpuinfo(field: str) -> str:
    """A field of the first processor; empty if there is none."""
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return ""


def cuda_devices() -> list[Device]:
    """The CUDA devices that torch can use, in torch's order."""
    if not has_driver():
        return []  # so would torch say, which takes seconds to import
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(Device(f"cuda:{index}", properties.name, properties.total_memory))
    return found


def has_driver() -> bool:
    """Whether there is any sign of an NVIDIA driver."""
    if any(map(os.path.exists, _DRIVER_SIGNS)):
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def all_devices() -> list[Device]:
    """All devices of this machine: the GPUs, then the CPU."""
    return [*cuda_devices(), cpu_device()]


def choose_devices(request: str = "auto") -> list[Device]:
    """The devices that `auto`, `cpu`, `cuda` or `cuda:N` names; `auto` means all GPUs, or the CPU without one.

    Raises InputError for another name, or for a GPU that does not exist.
    """
    if request == "cpu":
        return [cpu_device()]
    if request not in ("auto", "cuda") and not _names_a_gpu(request):
        raise InputError(f"unknown device {request!r}: use auto, cpu, cuda or cuda:N")
    gpus = cuda_devices()
    if request == "auto":
        return gpus or [cpu_device()]
    chosen = [gpu for gpu in gpus if request in ("cuda", gpu.name)]
    if not chosen:
        there = ", ".join(gpu.name for gpu in gpus) or "no CUDA device; for the reason, run: fib-rmsnorm env"
        raise InputError(f"no device {request!r} (available: {there})")
    return chosen


def _names_a_gpu(request: str) -> bool:
    kind, _, index = request.partition(":")
    return kind == "cuda" and index.isdigit()


def gpu_arch(device: Device) -> str | None:
    """The architecture of a GPU, such as `sm_90`; None for a CPU."""
    if device.kind == "cpu":
        return None
    import torch

    major, minor = torch.cuda.get_device_capability(device.name)
    return f"sm_{major}{minor}"


def has_dependent_launch(device: Device) -> bool:
    """Whether a GPU has programmatic dependent launch."""
    if device.kind == "cpu":
        return False
    import torch

    return torch.cuda.get_device_capability(device.name) >= (9, 0)
