"""Which language can run, compile or neither on a device here, and what to install."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement

from fib_rmsnorm.evaluation.building.native import find_cuda_home
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.schema import Solution, SupportedLanguages

Ability = Literal["run", "interpret", "compile", "no"]


@dataclass(frozen=True)
class Capability:
    """What a language can do on a device, and why no more."""

    ability: Ability
    note: str = ""

    @property
    def runs(self) -> bool:
        """Whether solutions can be evaluated."""
        return self.ability in ("run", "interpret")


def capability(language: str, device: Device) -> Capability:
    """What solutions in `language` can do on `device` with what is installed."""
    return _CHECKS[SupportedLanguages(language)](device)


def _python(_: Device) -> Capability:
    return Capability("run")


def _cpp(device: Device) -> Capability:
    if not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        return Capability("no", "no C++ compiler; install one: apt-get install g++")
    if device.kind != "cpu":
        return Capability("no", "C++ solutions run on the CPU; use --device cpu")
    return Capability("run")


def _cuda(device: Device) -> Capability:
    if find_cuda_home() is None:
        return Capability("no", "no CUDA toolkit; install one that has nvcc and set CUDA_HOME")
    if device.kind != "cuda":
        return Capability("compile", "needs an NVIDIA GPU to run; compiles here: fib-rmsnorm solve --build")
    return Capability("run")


def _triton(device: Device) -> Capability:
    if importlib.util.find_spec("triton") is None:
        return Capability("no", "triton is missing; run: pip install triton")
    if device.kind == "cpu":
        return Capability("interpret", "Triton has no CPU backend here: interpreted, so its time says nothing")
    return Capability("run")


def _tilelang(device: Device) -> Capability:
    if importlib.util.find_spec("tilelang") is None:
        return Capability("no", "tilelang is missing; run: pip install 'fib-rmsnorm[tilelang]'")
    if device.kind == "cuda" and find_cuda_home() is None:
        return Capability("no", "TileLang compiles with nvcc; install a CUDA toolkit and set CUDA_HOME")
    return Capability("run")


_CHECKS: dict[SupportedLanguages, Callable[[Device], Capability]] = {
    SupportedLanguages.TRITON: _triton,
    SupportedLanguages.CUDA: _cuda,
    SupportedLanguages.TILELANG: _tilelang,
    SupportedLanguages.CPP: _cpp,
    SupportedLanguages.PYTHON: _python,
}


def reason_to_skip(solution: Solution, device: Device) -> str | None:
    """Why a Solution cannot be evaluated on a device: a reason to skip it, never a failure; None if it can."""
    found = capability(solution.spec.language.value, device)
    if not found.runs:
        return found.note
    if not _targets(solution, device):
        return f"made for {', '.join(solution.spec.target_hardware)}, not for {device.kind}"
    return next(filter(None, map(_missing, solution.spec.dependencies)), None)


def _targets(solution: Solution, device: Device) -> bool:
    """Whether `target_hardware` names the device; datasets write `cuda` as well as `NVIDIA_H100`."""
    targets = [target.lower() for target in solution.spec.target_hardware]
    if device.kind == "cpu":
        return any("cpu" in target for target in targets)
    return any("cpu" not in target for target in targets)


def _missing(dependency: str) -> str | None:
    try:
        requirement = Requirement(dependency)
    except InvalidRequirement:
        return None  # upstream knows words such as `cublas`, which no package index does
    if requirement.marker and not requirement.marker.evaluate():
        return None
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        if not _is_package_name(requirement.name):
            return None
        return f"{requirement.name} is missing; run: pip install '{dependency}'"
    if not requirement.specifier.contains(installed, prereleases=True):
        return f"{requirement.name} {installed} is installed; run: pip install '{dependency}'"
    return None


def _is_package_name(name: str) -> bool:
    return name.lower() not in ("cublas", "cudnn", "cutlass", "cuda")
