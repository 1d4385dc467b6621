"""The abilities of languages and Solutions on this machine's devices, and the packages that are missing."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import join

from packaging.requirements import InvalidRequirement, Requirement

from fib_rmsnorm.building.native import find_cc, find_cuda_home, find_cxx, find_ninja
from fib_rmsnorm.languages import ABILITIES, LANGUAGES, NEEDS_GPU, Ability, Language, Tool
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH, vendor_of
from fib_rmsnorm.schema import Solution

_RANKS = list(ABILITIES)
# Upstream's datasets name these as well, but no Python package provides them.
_NO_PACKAGES = ("cublas", "cudnn", "cutlass", "cuda")
_OF_NVIDIA = (*_NO_PACKAGES, "nvidia", "flashinfer", "quack")
"""How the names of packages begin that need an NVIDIA GPU."""
_ON_AMD = vendor_of("gfx942").languages


@dataclass(frozen=True)
class Capability:
    """The ability of a language on a device, and the reason why it is not higher."""

    ability: Ability
    note: str = ""

    @property
    def runs(self) -> bool:
        """Whether Solutions can be evaluated."""
        return self.ability in ("run", "interpret")


def capability(language: str, device: Device) -> Capability:
    """The ability of Solutions in `language` on `device` with the installed tools."""
    known = LANGUAGES[language]
    if device.is_amd and known.compiles_for_gpus and language not in _ON_AMD:
        return Capability("no", NEEDS_GPU)
    ability, note = known.on[device.kind]
    missing = find_missing(known, known.needs.get(device.kind, ()))
    return Capability("no", missing) if missing else Capability(ability, note)


def find_missing(language: Language, tools: Sequence[Tool]) -> str | None:
    """The module or the first of the tools that is missing here, and how to install it; None if none is."""
    if language.module is not None and importlib.util.find_spec(language.module) is None:
        return f"{language.module} is missing; run: {language.install}"
    find = {"C++ compiler": find_cxx, "C compiler": find_cc, "nvcc": find_cuda_home, "ninja": find_ninja}
    return next((f"{language.title} needs {_ADVICE[tool]}" for tool in tools if find[tool]() is None), None)


_ADVICE: dict[Tool, str] = {
    "C++ compiler": "a C++ compiler; run: apt-get install g++",
    "C compiler": "a C compiler; run: apt-get install gcc",
    "nvcc": "nvcc; install a CUDA toolkit and set CUDA_HOME",
    "ninja": "ninja; run: pip install ninja",
}


def reason_to_skip(solution: Solution, device: Device, file: Path | None = None) -> str | None:
    """Why a Solution cannot be evaluated on a device; None if it can. A skip is never a failure."""
    found = readiness(solution, device, file)
    return None if found.runs else found.note


def readiness(solution: Solution, device: Device, file: Path | None = None) -> Capability:
    """The ability of a Solution, of a `file` if no registry has it: that of its language, if it targets the device."""
    found = capability(solution.spec.language.value, device)
    if found.ability == "compile":
        build = f"fib-rmsnorm solve --solutions {solution.name} --build --arch {DEFAULT_ARCH}"
        command = join(["fib-rmsnorm", "explain", str(file), "--definition", solution.definition]) if file else build
        return Capability("compile", f"{found.note}; to compile it here, run: {command}")
    if not found.runs:
        return found
    if not _targets(solution, device):
        targets = ", ".join(solution.spec.target_hardware)
        own = "AMD" if device.is_amd else device.kind
        return Capability("no", f"targets {targets}, not {own} (target_hardware of its spec)")
    if device.is_amd and any(each.lower().startswith(_OF_NVIDIA) for each in solution.spec.dependencies):
        return Capability("no", NEEDS_GPU)
    missing = missing_dependency(solution)
    return Capability("no", missing) if missing else found


def is_interpreted(solution: Solution, device: Device) -> bool:
    """Whether a device only interprets a Solution's kernel, so that it can be judged and not timed."""
    return capability(solution.spec.language.value, device).ability == "interpret"


@dataclass(frozen=True)
class Readiness:
    """The best ability of a Solution on this machine."""

    ability: Ability
    devices: list[str]
    """The kinds of device that offer it."""
    note: str
    """The reason why the ability is not higher."""


def find_readiness(solution: Solution, devices: Sequence[Device]) -> Readiness:
    """The best ability of a Solution on any of `devices`, the kinds of device that offer it, and the limiting reason.

    If the Solution can do nothing, the reason is that of a device that it targets.
    """
    found = [(readiness(solution, device), device) for device in devices]
    best, _ = min(found, key=lambda each: (_RANKS.index(each[0].ability), not _targets(solution, each[1])))
    kinds = dict.fromkeys(device.kind for each, device in found if each.ability == best.ability)
    return Readiness(best.ability, list(kinds), best.note)


def _targets(solution: Solution, device: Device) -> bool:
    """Whether `target_hardware` names the device; datasets write `cuda` or a model such as `NVIDIA_H100`."""
    targets = [target.lower() for target in solution.spec.target_hardware]
    if device.kind == "cpu":
        return any("cpu" in target for target in targets)
    return any("cpu" not in target and not (device.is_amd and "nvidia" in target) for target in targets)


def missing_dependency(solution: Solution) -> str | None:
    """The first dependency that is missing or too old, as a reason to skip the Solution; None if all are installed."""
    return next(filter(None, map(_missing, solution.spec.dependencies)), None)


def _missing(dependency: str) -> str | None:
    try:
        needed = Requirement(dependency)
    except InvalidRequirement:
        return None
    if needed.marker and not needed.marker.evaluate():
        return None
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        if needed.name.lower() in _NO_PACKAGES:
            return None
        return f"{needed.name} is missing; run: pip install '{needed}'"
    if needed.specifier.contains(installed, prereleases=True):
        return None
    return f"{needed.name} {installed} does not satisfy {needed.specifier}; run: pip install '{needed}'"


@dataclass(frozen=True)
class DeviceReport(Device):
    """A device, its timer, and what each language can do on it."""

    timer: str
    timer_note: str
    languages: dict[str, Capability]


@dataclass(frozen=True)
class FoundTool:
    """A tool outside Python and its purpose; path and version are None if it is missing."""

    name: str
    path: str | None
    version: str | None
    note: str = ""


@dataclass(frozen=True)
class CacheUse:
    """The folder of the build cache, and its size."""

    folder: str
    files: int
    size_bytes: int


@dataclass(frozen=True)
class MachineReport:
    """Everything that `fib-rmsnorm env` reports."""

    devices: list[DeviceReport]
    tools: list[FoundTool]
    python: str
    libraries: dict[str, str | None]
    """The versions of libraries; None if a library is missing."""
    cache: CacheUse
    notes: list[str]
