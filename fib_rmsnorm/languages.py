"""The languages of kernels, each once: its name, how it is built, where it runs and what that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Ability = Literal["run", "interpret", "compile", "no"]
"""What can be done with a language on a kind of device, the most first."""
DeviceKind = Literal["cuda", "cpu"]
Tool = Literal["C++ compiler", "C compiler", "nvcc", "ninja"]


@dataclass(frozen=True)
class Language:
    """A language that Solutions are written in."""

    name: str
    """The schema's, and that of a solution.toml."""
    title: str
    suffixes: tuple[str, ...]
    """Of a file that holds an entry point."""
    is_compiled: bool = False
    """Whether it is compiled to a shared library; other sources are imported as Python modules."""
    module: str | None = None
    """The Python module that its sources import, which tells them from plain Python."""
    install: str = ""
    """The command that installs the module."""
    on: Mapping[DeviceKind, tuple[Ability, str]] = field(default_factory=dict)
    """What can be done with it on each kind of device, and why no more."""
    needs: Mapping[DeviceKind, tuple[Tool, ...]] = field(default_factory=dict)
    """The tools outside Python that this takes."""

    @property
    def target_hardware(self) -> list[str]:
        """The kinds of devices on which its Solutions can be evaluated."""
        kinds: tuple[DeviceKind, ...] = ("cpu", "cuda")
        return [kind for kind in kinds if self.on[kind][0] in ("run", "interpret")]

    @property
    def compiles_for_gpus(self) -> bool:
        """Whether its kernels can be compiled for a GPU that is not there."""
        return self.on["cuda"][0] == "run" and (self.is_compiled or self.module is not None)


_NATIVE_TOOLS: tuple[Tool, ...] = ("C++ compiler", "ninja")

LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "Python", (".py",), on={"cuda": ("run", ""), "cpu": ("run", "")}),
        Language(
            "triton",
            "Triton",
            (".py",),
            module="triton",
            install="pip install triton",
            on={
                "cuda": ("run", ""),
                "cpu": ("interpret", "Triton has no CPU backend here: interpreted, so its time says nothing"),
            },
            needs={"cuda": ("C compiler",)},
        ),
        Language(
            "cpp",
            "C++",
            (".cpp", ".cc", ".cxx"),
            is_compiled=True,
            on={"cuda": ("no", "C++ solutions run on the CPU; use --device cpu"), "cpu": ("run", "")},
            needs={"cpu": _NATIVE_TOOLS},
        ),
        Language(
            "cuda",
            "CUDA",
            (".cu",),
            is_compiled=True,
            on={
                "cuda": ("run", ""),
                "cpu": ("compile", "needs an NVIDIA GPU to run; compiles here: fib-rmsnorm solve --build"),
            },
            needs={"cuda": ("nvcc", *_NATIVE_TOOLS), "cpu": ("nvcc", *_NATIVE_TOOLS)},
        ),
        Language(
            "tilelang",
            "TileLang",
            (".py",),
            module="tilelang",
            install="pip install 'fib-rmsnorm[tilelang]'",
            on={"cuda": ("run", ""), "cpu": ("run", "")},
            needs={"cuda": ("nvcc", "C++ compiler"), "cpu": ("C++ compiler",)},
        ),
    )
}
