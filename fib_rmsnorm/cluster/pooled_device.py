"""A device of the cluster, with the actor that Ray has placed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from fib_rmsnorm.cluster.device_actor import NodeFacts
from fib_rmsnorm.machine.capabilities import Capability
from fib_rmsnorm.schema import Solution


@dataclass(eq=False)
class PooledDevice:
    """An actor and its device."""

    number: int
    node_id: str
    node: str
    """The node's address, with its port where several nodes share an address."""
    actor: Any
    facts: NodeFacts | None = None
    """None until it has answered."""

    @property
    def name(self) -> str:
        """The node, and the GPU's number on it."""
        return f"{self.node} GPU {self.facts.gpu}" if self.facts and self.facts.gpu else self.node

    @property
    def hardware(self) -> str:
        """The model of the device, as Traces name it."""
        return self.facts.device.hardware if self.facts else ""


def find_readiness(devices: Sequence[PooledDevice], solutions: Sequence[Solution]) -> dict[str, Capability]:
    """What each Solution can do on all of the devices, by its name: the least, with the node that limits it."""
    found: dict[str, Capability] = {}
    # One call takes all, without sources: there may be hundreds.
    bare = ray.put([solution.model_copy(update={"sources": []}) for solution in solutions])
    answers = ray.get([device.actor.find_readiness.remote(bare) for device in devices])
    for device, capabilities in zip(devices, answers, strict=True):
        for solution, capability in zip(solutions, capabilities, strict=True):
            if solution.name not in found:
                found[solution.name] = capability
            elif found[solution.name].runs and not capability.runs:
                found[solution.name] = Capability(capability.ability, f"on {device.name}: {capability.note}")
    return found


def find_unready(device: PooledDevice, solutions: Sequence[Solution]) -> str | None:
    """Why a device cannot run one of the Solutions; None if it can run all."""
    found = find_readiness([device], solutions)
    return next((f"{name}: {each.note}" for name, each in found.items() if not each.runs), None)


def has_not_started(error: RayError) -> bool:
    """Whether an actor raised an error when it was made: another on the same node would too."""
    return "creation task" in str(error)


def describe_error(error: RayError) -> str:
    """What went wrong, in a line: an error of Ray's may have hundreds, of which the last tells why no actor started."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__}: {error.cause}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"its actor does not start: {lines[-1]}" if has_not_started(error) else lines[0]
