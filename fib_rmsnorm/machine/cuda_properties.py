"""The properties of GPUs, read from the CUDA driver: to import torch for them takes seconds."""

from __future__ import annotations

import ctypes
import runpy
import uuid
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_NAME_BYTES = 256
# CU_DEVICE_ATTRIBUTE_*
_MULTIPROCESSORS, _PCI_BUS, _PCI_DEVICE, _PCI_DOMAIN, _MAJOR, _MINOR = 16, 33, 34, 50, 75, 76


@dataclass(frozen=True)
class GpuProperties:
    """What the driver says of a GPU, as torch does."""

    name: str
    memory_bytes: int
    uuid: str
    """Hexadecimal digits in groups, without NVML's `GPU-` before them; empty if the driver is too old to say it."""
    pci_address: tuple[int, int, int]
    """Domain, bus and device."""
    capability: tuple[int, int]
    multiprocessors: int


@cache
def list_gpus() -> tuple[GpuProperties, ...]:
    """The GPUs that torch can use, in torch's order; empty without a driver, or if torch is built without CUDA."""
    if cuda_of_torch() is None:
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
    """The properties of torch's `cuda:N`; None if there is no such GPU."""
    gpus, index = list_gpus(), int(device.partition(":")[2] or 0)
    return gpus[index] if index < len(gpus) else None


def _read(driver: ctypes.CDLL, ordinal: int) -> GpuProperties:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name, identity = ctypes.create_string_buffer(_NAME_BYTES), ctypes.create_string_buffer(16)
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    driver.cuDeviceGetName(name, _NAME_BYTES, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    read_uuid = getattr(driver, "cuDeviceGetUuid_v2", None)  # CUDA 11.4: a slice of a GPU has its own
    has_uuid = read_uuid is not None and read_uuid(identity, device) == 0

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return GpuProperties(
        name=name.value.decode(errors="replace"),
        memory_bytes=memory.value,
        uuid=str(uuid.UUID(bytes=identity.raw)) if has_uuid else "",
        pci_address=(attribute(_PCI_DOMAIN), attribute(_PCI_BUS), attribute(_PCI_DEVICE)),
        capability=(attribute(_MAJOR), attribute(_MINOR)),
        multiprocessors=attribute(_MULTIPROCESSORS),
    )


@cache
def cuda_of_torch() -> str | None:
    """The version of CUDA that torch is built for, from the file that says it; None for a torch without CUDA."""
    spec = find_spec("torch")
    file = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return runpy.run_path(str(file)).get("cuda") if file and file.is_file() else None
