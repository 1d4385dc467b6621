"""The devices of this machine, with the names that Traces record.

The properties of GPUs come from the CUDA driver, and AMD's from Linux: to import torch for them takes seconds.
"""

import ctypes
import os
import platform
import re
import runpy
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import psutil

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind

_NAME_BYTES = 256
# CU_DEVICE_ATTRIBUTE_*
_MULTIPROCESSORS, _PCI_BUS, _PCI_DEVICE, _PCI_DOMAIN, _MAJOR, _MINOR = 16, 33, 34, 50, 75, 76

ONE_CONNECTION = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
TWO_CONNECTIONS = {"CUDA_DEVICE_MAX_CONNECTIONS": "2"}
"""The variable with which a process opens a GPU in half the time: the driver does this for one process at a time.

Its streams then share so many queues of the GPU, of which there are 8 without. So nothing is timed with one, and with
two, nothing that makes streams.
"""


@dataclass(frozen=True)
class Device:
    """A device that evaluations can run on."""

    name: str
    """torch's name: `cpu`, `cuda:0`, ..."""
    hardware: str
    """The model's name in Traces: `NVIDIA H200`, `Intel(R) Xeon(R) Processor (2 cores)`, `AMD ...`."""
    memory_bytes: int

    @property
    def kind(self) -> DeviceKind:
        """`cpu` or `cuda`."""
        return "cpu" if self.name == "cpu" else "cuda"

    @property
    def is_amd(self) -> bool:
        """Whether it is one of AMD's GPUs, which torch calls `cuda:N` too."""
        return self.kind == "cuda" and self.hardware.startswith("AMD")


@dataclass(frozen=True)
class GpuProperties:
    """The driver's properties of a GPU, as torch reports them."""

    name: str
    memory_bytes: int
    uuid: str
    """Hexadecimal digits in groups, without NVML's `GPU-` before them. A slice of a GPU has its own."""
    pci_address: tuple[int, int, int]
    """Domain, bus and device."""
    arch: str
    """`sm_90`, `gfx942`, ..."""
    multiprocessors: int


@cache
def list_gpus() -> tuple[GpuProperties, ...]:
    """The GPUs that torch can use, in torch's order; empty without a driver, or if torch is built for CPUs."""
    if version_of_torch("hip"):
        return list_amd_gpus()
    if version_of_torch("cuda") is None:
        return ()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_read(driver, ordinal) for ordinal in range(count.value))


def find_properties(device: str) -> GpuProperties | None:
    """The properties of torch's `cuda:N`; None for the CPU, or if there is no such GPU."""
    return next((gpu for index, gpu in enumerate(list_gpus()) if device == f"cuda:{index}"), None)


def _read(driver: ctypes.CDLL, ordinal: int) -> GpuProperties:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name, identity = ctypes.create_string_buffer(_NAME_BYTES), ctypes.create_string_buffer(16)
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    driver.cuDeviceGetName(name, _NAME_BYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    driver.cuDeviceGetUuid_v2(identity, device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return GpuProperties(
        name=name.value.decode(errors="replace"),
        memory_bytes=memory.value,
        uuid=str(uuid.UUID(bytes=identity.raw)),
        pci_address=(attribute(_PCI_DOMAIN), attribute(_PCI_BUS), attribute(_PCI_DEVICE)),
        arch=f"sm_{attribute(_MAJOR)}{attribute(_MINOR)}",
        multiprocessors=attribute(_MULTIPROCESSORS),
    )


def list_amd_gpus(system: Path = Path("/sys")) -> tuple[GpuProperties, ...]:
    """AMD's GPUs that Linux's driver lists and HIP's variables do not hide. Nobody has run this on one yet."""
    found = []
    nodes = system.glob("class/kfd/kfd/topology/nodes/*/properties")
    for file in sorted(nodes, key=lambda file: int(file.parent.name)):
        with suppress(OSError):  # of a GPU that this user or container may not open
            node = {name: int(value) for name, value in map(str.split, file.read_text().splitlines())}
            if node.get("gfx_target_version"):  # 0 for a CPU
                found.append(_read_amd(node, system / f"class/drm/renderD{node['drm_render_minor']}/device"))
    of_hip = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    for visible in (os.environ.get("ROCR_VISIBLE_DEVICES"), of_hip):
        if visible is not None:
            named = {f"GPU-{gpu.uuid}": gpu for gpu in found} | {str(index): gpu for index, gpu in enumerate(found)}
            found = [named[each] for each in visible.replace(" ", "").split(",") if each in named]
    return tuple(found)


def _read_amd(node: Mapping[str, int], card: Path) -> GpuProperties:
    """Read a GPU's node in the topology, and its folder of the graphics driver, which names only some models."""
    major, rest = divmod(node["gfx_target_version"], 10_000)
    arch, name = f"gfx{major}{rest // 100:x}{rest % 100:x}", ""
    with suppress(OSError):
        name = (card / "product_name").read_text().strip()
    return GpuProperties(
        name=name if name.startswith("AMD") else f"AMD {name or arch}",
        memory_bytes=int((card / "mem_info_vram_total").read_text()),
        uuid=f"{node['unique_id']:016x}",
        pci_address=(node["domain"], node["location_id"] >> 8, node["location_id"] >> 3 & 31),
        arch=arch,
        multiprocessors=node["simd_count"] // node["simd_per_cu"],
    )


@cache
def version_of_torch(library: str) -> str | None:
    """The version of `cuda` or `hip` that torch is built for, from the file that says it; None for a torch without."""
    spec = find_spec("torch")
    file = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return runpy.run_path(str(file)).get(library) if file and file.is_file() else None


def cpu_device() -> Device:
    """The CPU, with the number of cores that this process may use."""
    cores = len(psutil.Process().cpu_affinity())
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    model = next(named, "") or platform.machine()
    return Device("cpu", f"{model} ({cores} core{'s' * (cores != 1)})", psutil.virtual_memory().total)


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
    if not re.fullmatch(r"auto|cuda(:\d+)?", request):
        raise InputError(f"unknown device {request!r}: use auto, cpu, cuda or cuda:N")
    gpus = cuda_devices()
    if request == "auto":
        return gpus or [cpu_device()]
    chosen = [gpu for gpu in gpus if request in ("cuda", gpu.name)]
    if not chosen:
        there = ", ".join(gpu.name for gpu in gpus) or "no CUDA device; for the reason, run: fib-rmsnorm env"
        raise InputError(f"no device {request!r} (available: {there})")
    return chosen


def gpu_arch(device: Device) -> str | None:
    """The architecture of a GPU, such as `sm_90` or `gfx942`; None for a CPU."""
    gpu = find_properties(device.name)
    return gpu.arch if gpu else None
