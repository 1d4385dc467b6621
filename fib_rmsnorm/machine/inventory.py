"""What a machine has for the job: devices, tools, libraries and the folder of builds."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.machine.capabilities import Capability


@dataclass(frozen=True)
class DeviceReport:
    """A device, how it would be timed, and what each language can do on it."""

    name: str
    hardware: str
    memory_bytes: int
    timer: str
    timer_note: str
    languages: dict[str, Capability]


@dataclass(frozen=True)
class FoundTool:
    """A tool outside Python: where it is and its version; neither if it is missing, and what for."""

    name: str
    path: str | None
    version: str | None
    note: str = ""


@dataclass(frozen=True)
class CacheUse:
    """The folder of builds and what it holds."""

    folder: str
    files: int
    size_bytes: int


@dataclass(frozen=True)
class MachineReport:
    """Everything `fib-rmsnorm env` says."""

    devices: list[DeviceReport]
    tools: list[FoundTool]
    python: str
    libraries: dict[str, str | None]
    """Versions; None for what is missing."""
    cache: CacheUse
    notes: list[str]
