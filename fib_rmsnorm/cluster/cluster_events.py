"""What a bench on a cluster tells beside the events of every bench."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Told:
    """Something that the user should know of a node: it was lost, it is left out, its libraries differ."""

    text: str


@dataclass(frozen=True)
class DeviceState:
    """What a device does, and how many evaluations it has finished."""

    device: str
    doing: str
    finished: int


@dataclass(frozen=True)
class Progress:
    """The state of every device."""

    devices: list[DeviceState]
