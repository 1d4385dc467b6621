"""The inventory of a machine: devices, tools, libraries and the build cache."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.machine.capabilities import Capability


@dataclass(frozen=True)
class DeviceReport:
    """A device, its timer, and what each language can do on it."""

    name: str
    hardware: str
    memory_bytes: int
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
