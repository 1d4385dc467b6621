"""Which language can run, compile or neither on a device here, and what to install."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fib_rmsnorm.building.native import find_cc, find_cuda_home, find_cxx, find_ninja
from fib_rmsnorm.machine.dependencies import missing_dependency
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.schema import Solution, SupportedLanguages

Ability = Literal["run", "interpret", "compile", "no"]
_RANKS: tuple[Ability, ...] = ("run", "interpret", "compile", "no")


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
    if device.kind != "cpu":
        return Capability("no", "C++ solutions run on the CPU; use --device cpu")
    missing = _missing_native_tool()
    return Capability("no", missing) if missing else Capability("run")


def _missing_native_tool() -> str | None:
    if find_cxx() is None:
        return "no C++ compiler; install one: apt-get install g++"
    if find_ninja() is None:
        return "ninja is missing; run: pip install ninja"
    return None


def _cuda(device: Device) -> Capability:
    if find_cuda_home() is None:
        return Capability("no", "no CUDA toolkit; install one that has nvcc and set CUDA_HOME")
    missing = _missing_native_tool()
    if missing:
        return Capability("no", missing)
    if device.kind != "cuda":
        return Capability("compile", "needs an NVIDIA GPU to run; compiles here: fib-rmsnorm solve --build")
    return Capability("run")


def _triton(device: Device) -> Capability:
    if importlib.util.find_spec("triton") is None:
        return Capability("no", "triton is missing; run: pip install triton")
    if device.kind == "cuda" and find_cc() is None:
        return Capability("no", "Triton needs a C compiler; install one: apt-get install gcc")
    if device.kind == "cpu":
        return Capability("interpret", "Triton has no CPU backend here: interpreted, so its time says nothing")
    return Capability("run")


def _tilelang(device: Device) -> Capability:
    if importlib.util.find_spec("tilelang") is None:
        return Capability("no", "tilelang is missing; run: pip install 'fib-rmsnorm[tilelang]'")
    if device.kind == "cuda" and find_cuda_home() is None:
        return Capability("no", "TileLang compiles with nvcc; install a CUDA toolkit and set CUDA_HOME")
    if find_cxx() is None:
        return Capability("no", "TileLang needs a C++ compiler; install one: apt-get install g++")
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
    found = readiness(solution, device)
    return None if found.runs else found.note


def readiness(solution: Solution, device: Device) -> Capability:
    """What can be done with a Solution on a device: what its language can, if it is made for the device."""
    found = capability(solution.spec.language.value, device)
    if not found.runs:
        return found
    if not _targets(solution, device):
        targets = ", ".join(solution.spec.target_hardware)
        return Capability("no", f"made for {targets}, not for {device.kind} (target_hardware in its solution.toml)")
    missing = missing_dependency(solution)
    return Capability("no", missing) if missing else found


def describe_readiness(solution: Solution, devices: Sequence[Device]) -> dict[str, Any]:
    """The most that can be done with a Solution on any of `devices`, on which kinds of them, and why no more.

    If nothing can, the reason is that of a device it is made for.
    """
    found = [(readiness(solution, device), device) for device in devices]
    best, _ = min(found, key=lambda each: (_RANKS.index(each[0].ability), not _targets(solution, each[1])))
    kinds = dict.fromkeys(device.kind for each, device in found if each.ability == best.ability)
    return {"ability": best.ability, "devices": list(kinds), "note": best.note}


def _targets(solution: Solution, device: Device) -> bool:
    """Whether `target_hardware` names the device; datasets write `cuda` as well as `NVIDIA_H100`."""
    targets = [target.lower() for target in solution.spec.target_hardware]
    if device.kind == "cpu":
        return any("cpu" in target for target in targets)
    return any("cpu" not in target for target in targets)
