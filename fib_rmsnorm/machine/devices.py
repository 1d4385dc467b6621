"""The devices of this machine, with the names that Traces record."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.machine.cuda_properties import find_properties, list_gpus


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
    return [Device(f"cuda:{index}", gpu.name, gpu.memory_bytes) for index, gpu in enumerate(list_gpus())]


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
    gpu = None if device.kind == "cpu" else find_properties(device.name)
    return f"sm_{gpu.capability[0]}{gpu.capability[1]}" if gpu else None


def has_dependent_launch(device: Device) -> bool:
    """Whether a GPU has programmatic dependent launch."""
    gpu = None if device.kind == "cpu" else find_properties(device.name)
    return gpu is not None and gpu.capability >= (9, 0)
