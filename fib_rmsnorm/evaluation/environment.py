"""What a Trace records of the machine: the device's model and the versions of what matters."""

from __future__ import annotations

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from fib_rmsnorm.evaluation.devices import Device
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


@cache
def record_environment(device: Device) -> Environment:
    """The Environment of evaluations on `device`."""
    return Environment(hardware=device.hardware, libs=library_versions())


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
