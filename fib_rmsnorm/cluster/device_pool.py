"""The devices of the cluster: an actor on each, which Ray places, and tells when it has died."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fib_rmsnorm.cluster.device_actor import DeviceActor, NodeFacts, reason_to_refuse
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.bench import BenchOptions
from fib_rmsnorm.machine.capabilities import Capability
from fib_rmsnorm.machine.gpu_models import find_gpu_model
from fib_rmsnorm.schema import Solution

_SETTLED_S = 20.0
"""Once a device has answered, how long others may take that other jobs of the cluster may hold."""
_START_LIMIT_S = 120.0


@dataclass(eq=False)
class PooledDevice:
    """An actor and its device."""

    number: int
    node: str
    """The node's address, with its port where several nodes share an address."""
    actor: Any
    facts: NodeFacts

    @property
    def name(self) -> str:
        """The node, and the GPU's number on it."""
        return f"{self.node} GPU {self.facts.gpu}" if self.facts.gpu else self.node

    @property
    def hardware(self) -> str:
        """The model of the device, as Traces name it."""
        return self.facts.device.hardware


class DevicePool:
    """Has an actor on each device of the cluster that is free when the bench starts. Ray ends them with the driver."""

    def __init__(self, options: BenchOptions, models: Sequence[str], *, require_sandbox: bool) -> None:
        """`models` are words of the names of models, to take each; empty if the cluster has one model."""
        self._options = options
        self._models = models
        self._require_sandbox = require_sandbox
        self.kind = options.device
        if options.device == "auto":
            self.kind = "cuda" if any(node["Resources"].get("GPU") for node in _living_nodes()) else "cpu"
        self.devices: list[PooledDevice] = []

    def open(self) -> None:
        """Wait for the devices of the cluster. Raises InputError if none answers, or one of them may not take part."""
        started = last = time.monotonic()
        waiting = dict(self._start_all())
        while waiting and time.monotonic() - started < _START_LIMIT_S:
            if self.devices and time.monotonic() - last > _SETTLED_S:
                break
            ready, _ = ray.wait([*waiting], timeout=0.5)
            for answer in ready:
                last = time.monotonic()
                node, actor = waiting.pop(answer)
                self._take_in(node, actor, answer)
        for _, actor in waiting.values():  # whose devices other jobs of the cluster hold
            ray.kill(actor)
        if not self.devices:
            what = "GPU" if self.kind == "cuda" else "CPU"
            raise InputError(f"--ray: no node of the cluster has a {what} that is free; see: ray status")

    def _start_all(self) -> Iterator[tuple[Any, tuple[str, Any]]]:
        """Ask Ray for an actor on each device; yield them with their nodes, by what Ray will answer for."""
        nodes = _living_nodes()
        shared = Counter(node["NodeManagerAddress"] for node in nodes)
        for node in nodes:
            identity, address, resources = node["NodeID"], node["NodeManagerAddress"], node["Resources"]
            name = f"{address}:{node['NodeManagerPort']}" if shared[address] > 1 else address
            # A node's CPU is one device: nothing else that asks Ray for cores runs beside it.
            needs = {"num_gpus": 1} if self.kind == "cuda" else {"num_cpus": resources.get("CPU", 0)}
            here = NodeAffinitySchedulingStrategy(identity, soft=False)
            made = ray.remote(DeviceActor).options(scheduling_strategy=here, max_restarts=0, **needs)
            for _ in range(int(resources.get("GPU", 0) if self.kind == "cuda" else resources.get("CPU", 0) >= 1)):
                actor = made.remote(self.kind, self._options.settings, self._options.timeout_s)
                yield actor.start.remote(), (name, actor)

    def _take_in(self, node: str, actor: Any, answer: Any) -> None:
        """Add a device that has answered, unless its node is lost. Raises InputError if it may not take part."""
        try:
            facts = ray.get(answer)
            reason = reason_to_refuse(facts, require_sandbox=self._require_sandbox)
        except RayError as error:
            if not (isinstance(error, RayTaskError) or has_not_started(error)):
                return
            reason = describe_error(error)
        if reason:
            raise InputError(f"--ray: node {node}: {reason}")
        self.devices.append(PooledDevice(len(self.devices), node, actor, facts))

    def give_back(self, device: PooledDevice) -> None:
        """End a device's actor, also one that has died."""
        self.devices.remove(device)
        ray.kill(device.actor)

    def choose_models(self) -> dict[str, list[PooledDevice]]:
        """The devices that take part, by model; the others are given back.

        Raises InputError if several models are there and none is named, or a named one is missing.
        """
        there: dict[str, list[PooledDevice]] = {}
        for device in self.devices:
            there.setdefault(device.hardware, []).append(device)
        listed = ", ".join(f"{model} ({len(devices)})" for model, devices in there.items())
        if not self._models and len(there) > 1:
            known = {model: find_gpu_model(model) for model in there}
            example = ",".join(each.name.split()[0] if each else model for model, each in known.items())
            raise InputError(
                f"--ray: the cluster has devices of {len(there)} models: {listed}; name those to bench on, such as:"
                f" --gpus '{example}'"
            )
        for part in self._models:
            if not any(_matches(part, model) for model in there):
                raise InputError(f"--gpus {part}: the cluster has none (available: {listed})")
        for model in [*there]:
            if self._models and not any(_matches(part, model) for part in self._models):
                for device in there.pop(model):
                    self.give_back(device)
        return there


def _living_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _matches(part: str, model: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", model.replace("_", " "), re.IGNORECASE) is not None


def find_readiness(devices: Sequence[PooledDevice], solutions: Sequence[Solution]) -> dict[str, Capability]:
    """The ability of each Solution on all of the devices, by its name: the least, with the node that limits it."""
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
    """The cause of an error of Ray's: of its hundreds of lines, the last tells why no actor started."""
    if isinstance(error, RayTaskError):
        return f"{type(error.cause).__name__}: {error.cause}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"its actor does not start: {lines[-1]}" if has_not_started(error) else lines[0]
