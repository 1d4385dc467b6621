"""The machine's part of a Trace: the device's model and the versions of the libraries that matter."""

from __future__ import annotations

import hashlib
import platform
import runpy
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.devices import Device

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Environment

PACKAGES = (
    "fib-rmsnorm",
    "flashinfer-bench",
    "torch",
    *(language.module for language in LANGUAGES.values() if language.module),
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
    from fib_rmsnorm.schema import Environment

    return Environment(hardware=device.hardware, libs=library_versions())


@cache
def identify_session(device: Device) -> str | None:
    """A digest of the device's identity and its machine's boot; None where the system does not report them.

    Results of two devices of one model differ more than two runs on one device (`analysis/comparing/difference.py`).
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
    """Versions of Python, CUDA and the packages that matter, without those that are not installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    if cuda := _cuda_of_torch():
        found["cuda"] = cuda
    return found


def _cuda_of_torch() -> str | None:
    """The version of CUDA that torch is built for, from the file that says it: importing torch takes seconds."""
    spec = find_spec("torch")
    file = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return runpy.run_path(str(file)).get("cuda") if file and file.is_file() else None
