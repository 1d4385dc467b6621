"""The machine's part of a Trace: the device's model and the versions of the libraries that matter."""

import hashlib
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fib_rmsnorm.languages import INTERPRETER, KERNEL_LANGUAGES
from fib_rmsnorm.machine.devices import Device, find_properties, version_of_torch
from fib_rmsnorm.schema import Environment

PACKAGES = (
    "fib-rmsnorm",
    "flashinfer-bench",
    "torch",
    *(language.package for language in KERNEL_LANGUAGES.values() if language.package),
    "apache-tvm-ffi",
    "flashinfer-python",
    "quack-kernels",
    "liger-kernel",
    "cupti-python",
)
_SESSION_DIGITS = 12
_DRIVER = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"Kernel Module.*?\s(\d+\.[\d.]+)")


@cache
def record_environment(device: Device, *, interpreted: bool = False) -> Environment:
    """The Environment of evaluations on `device`, or by an interpreter that runs there."""
    hardware = f"{device.hardware}{INTERPRETER}" if interpreted else device.hardware
    return Environment(hardware=hardware, libs=library_versions())


@cache
def identify_session(device: Device) -> str | None:
    """A digest of the device's identity and its machine's boot; None where the system does not report them.

    Results of two devices of one model differ more than two runs on one device (`analysis/difference.py`).
    """
    gpu = find_properties(device.name)
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    parts = [boot, device.kind, *([gpu.uuid] if gpu else [])]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:_SESSION_DIGITS]


@cache
def library_versions() -> dict[str, str]:
    """Versions of Python, CUDA or HIP, NVIDIA's driver and the packages that matter, without those that are missing."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    found |= {library: built for library in ("cuda", "hip") if (built := version_of_torch(library))}
    with suppress(OSError):
        if driver := _DRIVER_VERSION.search(_DRIVER.read_text(errors="replace")):
            found["nvidia-driver"] = driver[1]
    return found
