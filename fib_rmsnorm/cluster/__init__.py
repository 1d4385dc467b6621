"""Run a bench on the nodes of a Ray cluster: an actor for each device runs the scheduler of `evaluation` there.

Ray is the engine: it starts processes on other machines, carries objects to them, and tells which have died. All files
run in the driver, the process that the user started, but for `device_actor`. The driver alone plans and records.

What such a bench tells beside the events of every bench is here.
"""

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
