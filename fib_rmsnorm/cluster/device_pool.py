"""The devices of the cluster: an actor on each, which Ray places, and tells when it has died."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fib_rmsnorm.cluster.connection import ClusterOptions
from fib_rmsnorm.cluster.device_actor import DeviceActor, NodeFacts, reason_to_refuse
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.bench import BenchOptions
from fib_rmsnorm.machine.capabilities import Capability
from fib_rmsnorm.machine.gpu_models import find_gpu_model
from fib_rmsnorm.schema import Solution

_SETTLED_S = 20.0
"""Once a device has answered, how long others may take that other jobs of the cluster may hold."""
_START_LIMIT_S = 120.0
_MOST_LOSSES = 3
"""How many actors may die for each device of a node before the node is left alone."""


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


class DeviceRefusedError(Exception):
    """A device may not take part. The message names it and says why."""


class DeviceLostError(Exception):
    """A device was lost before it answered. The message says so."""


class DevicePool:
    """Has an actor on each device of the cluster, on those of nodes that join later too."""

    def __init__(self, options: BenchOptions, cluster: ClusterOptions) -> None:
        self._options = options
        self._cluster = cluster
        self._numbers = count()
        self._losses: Counter[str] = Counter()
        self._left_out: set[str] = set()
        """The nodes of which no more devices take part."""
        self.kind = options.device
        if options.device == "auto":
            self.kind = "cuda" if any(node["Resources"].get("GPU") for node in _living_nodes()) else "cpu"
        self._models: set[str] | None = None
        """The models that take part; None until they are chosen."""
        self._planned: Sequence[Solution] = ()
        self.devices: list[PooledDevice] = []
        self.joining: dict[Any, PooledDevice] = {}
        """The devices that have not answered, by what Ray will answer for."""

    def find_new(self) -> None:
        """Ask Ray for an actor on each device that has none."""
        nodes = _living_nodes()
        shared = Counter(node["NodeManagerAddress"] for node in nodes)
        held = Counter(device.node_id for device in (*self.devices, *self.joining.values()))
        for node in nodes:
            identity, address = node["NodeID"], node["NodeManagerAddress"]
            name = f"{address}:{node['NodeManagerPort']}" if shared[address] > 1 else address
            resources = node["Resources"]
            capacity = int(resources.get("GPU", 0)) if self.kind == "cuda" else int(resources.get("CPU", 0) >= 1)
            if identity not in self._left_out and self._losses[identity] < _MOST_LOSSES * capacity:
                for _ in range(capacity - held[identity]):
                    self._start(identity, name, resources)

    def _start(self, node_id: str, name: str, resources: dict[str, float]) -> None:
        # A node's CPU is one device: nothing else that asks Ray for cores runs beside it.
        needs = {"num_gpus": 1} if self.kind == "cuda" else {"num_cpus": resources["CPU"]}
        here = NodeAffinitySchedulingStrategy(node_id, soft=False)
        made = ray.remote(DeviceActor).options(scheduling_strategy=here, max_restarts=0, **needs)
        actor = made.remote(self.kind, self._options.settings, self._options.timeout_s)
        self.joining[actor.start.remote()] = PooledDevice(next(self._numbers), node_id, name, actor)

    def join(self, answer: Any) -> PooledDevice | None:
        """Take in a device that has answered; None if it is of a model that does not take part.

        Raises DeviceRefusedError if it may not take part, DeviceLostError if it has died.
        """
        device = self.joining.pop(answer)
        try:
            reason = self._take_in(device, ray.get(answer))
        except RayTaskError as error:
            reason = describe_error(error)
        except RayError as error:
            reason = describe_error(error)
            if not has_not_started(error):
                why = "was lost" if self._end(device) else f"failed ({reason})"
                raise DeviceLostError(f"node {device.node} {why}") from None
        if device in self.devices:
            return device
        self._left_out.add(device.node_id)
        self._end(device)
        if reason:
            raise DeviceRefusedError(f"node {device.node}: {reason}")
        return None

    def _take_in(self, device: PooledDevice, facts: NodeFacts) -> str | None:
        """Add a device, unless there is a reason not to, which is returned, or its model does not take part."""
        device.facts = facts
        if reason := reason_to_refuse(facts, require_sandbox=self._cluster.require_sandbox):
            return reason
        if self._models is not None:
            if device.hardware not in self._models:
                return None
            found = find_readiness([device], self._planned)
            if reason := next((f"{name}: {each.note}" for name, each in found.items() if not each.runs), None):
                return reason
        self.devices.append(device)
        return None

    def lose(self, device: PooledDevice) -> bool:
        """Give up a device whose actor has died. Return whether its node is lost too."""
        self.devices.remove(device)
        return self._end(device)

    def _end(self, device: PooledDevice) -> bool:
        """End an actor that serves no more, and return whether its node is lost."""
        ray.kill(device.actor)
        self._losses[device.node_id] += 1
        return all(node["NodeID"] != device.node_id for node in _living_nodes())

    def open(self) -> None:
        """Wait for the devices of the cluster. Raises InputError if none answers, or one of them may not take part."""
        started = last = time.monotonic()
        self.find_new()
        while self.joining and time.monotonic() - started < _START_LIMIT_S:
            if self.devices and time.monotonic() - last > _SETTLED_S:
                break
            ready, _ = ray.wait([*self.joining], timeout=0.5)
            for answer in ready:
                last = time.monotonic()
                try:
                    self.join(answer)
                except DeviceRefusedError as error:
                    raise InputError(f"--ray: {error}") from None
                except DeviceLostError:
                    self.find_new()
        if not self.devices:
            what = "GPU" if self.kind == "cuda" else "CPU"
            raise InputError(f"--ray: no node of the cluster has a {what} that is free; see: ray status")

    def choose_models(self) -> dict[str, list[PooledDevice]]:
        """The devices that take part, by model; the others are given back.

        Raises InputError if several models are there and none is named, or a named one is missing.
        """
        there: dict[str, list[PooledDevice]] = {}
        for device in self.devices:
            there.setdefault(device.hardware, []).append(device)
        listed = ", ".join(f"{model} ({len(devices)})" for model, devices in there.items())
        if not self._cluster.models and len(there) > 1:
            known = {model: find_gpu_model(model) for model in there}
            example = ",".join(each.name.split()[0] if each else model for model, each in known.items())
            raise InputError(
                f"--ray: the cluster has devices of {len(there)} models: {listed}; name those to bench on, such as:"
                f" --gpus '{example}'"
            )
        for part in self._cluster.models:
            if not any(_matches(part, model) for model in there):
                raise InputError(f"--gpus {part}: the cluster has none (available: {listed})")
        wanted = self._cluster.models
        self._models = {model for model in there if not wanted or any(_matches(part, model) for part in wanted)}
        for device in [device for device in self.devices if device.hardware not in self._models]:
            self.devices.remove(device)
            self._left_out.add(device.node_id)
            self._end(device)
        return {model: devices for model, devices in there.items() if model in self._models}

    def expect(self, solutions: Sequence[Solution]) -> None:
        """Have devices that join later be able to run what is planned."""
        self._planned = solutions

    def close(self) -> None:
        """End all actors. One that evaluates is killed, and its processes with it."""
        for device in (*self.devices, *self.joining.values()):
            ray.kill(device.actor)


def _living_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _matches(part: str, model: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", model.replace("_", " "), re.IGNORECASE) is not None


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


def has_not_started(error: RayError) -> bool:
    """Whether an actor raised an error when it was made: another on the same node would too."""
    return "creation task" in str(error)


def describe_error(error: RayError) -> str:
    """What went wrong, in a line: an error of Ray's may have hundreds, of which the last tells why no actor started."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__}: {error.cause}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"its actor does not start: {lines[-1]}" if has_not_started(error) else lines[0]
