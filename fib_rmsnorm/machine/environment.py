"""What a Trace records of the machine: the device's model and the versions of what matters."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.schema import Environment

PACKAGES = (
    "fib-rmsnorm",
    "flashinfer-bench",
    "torch",
    "triton",
    "tilelang",
    "nvidia-cutlass-dsl",
    "apache-tvm-ffi",
    "flashinfer-python",
    "quack-kernels",
    "liger-kernel",
    "cupti-python",
)
_SESSION_DIGITS = 12


@cache
def record_environment(device: Device) -> Environment:
    """The Environment of evaluations on `device`."""
    return Environment(hardware=device.hardware, libs=library_versions())


@cache
def identify_session(device: Device) -> str | None:
    """A digest of which device this is and when its machine was started; None where the system does not tell.

    Numbers of two devices of one model differ by more than two runs on one of them (`analysis/difference.py`).
    """
    try:
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), device.kind]
    except OSError:
        return None
    if device.kind != "cpu":
        import torch

        parts.append(str(getattr(torch.cuda.get_device_properties(device.name), "uuid", "")))
        if not parts[-1]:
            return None
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:_SESSION_DIGITS]


@cache
def library_versions() -> dict[str, str]:
    """Versions of Python, the packages that matter and CUDA; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    import torch

    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found
