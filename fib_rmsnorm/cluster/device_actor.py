"""The actor: it runs on a node of the cluster, beside one device; it tells what the node is, and evaluates there."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Event, Scheduler
from fib_rmsnorm.machine.capabilities import Capability, readiness
from fib_rmsnorm.machine.devices import Device, choose_devices
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings, Solution

_SOURCES = (".py", ".cpp", ".cu", ".h", ".inc")
_MOST_AHEAD_S = 60.0
"""How far a node's clock may be ahead: Traces that are dated in the future are not believed."""
_GPU_CHOICE = "CUDA_VISIBLE_DEVICES"
_PRINT_PATH = "import os, sys; print(os.pathsep.join(filter(None, sys.path)))"


@dataclass(frozen=True)
class NodeFacts:
    """One device of a node, and what runs there."""

    device: Device
    gpu: str
    """The number that Ray gives the GPU on its node; empty for a CPU."""
    tool: str
    """The version of this tool, with a digest of its sources."""
    gaps: tuple[str, ...]
    """The things that the sandbox cannot keep a Solution from there."""
    clock: float
    """Seconds since 1970."""


def describe_node(device: Device) -> NodeFacts:
    """The facts of this process's node."""
    gpu = "" if device.kind == "cpu" else os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return NodeFacts(device, gpu, tool_version(), tuple(find_gaps()), time.time())


@cache
def tool_version() -> str:
    """This tool's version and a digest of its sources: what is installed from a checkout keeps its version number."""
    root = Path(__file__).parents[1]
    sources = sorted(path.relative_to(root) for path in root.rglob("*") if path.suffix in _SOURCES)
    whole = hashlib.sha256()
    for path in sources:
        if path.parts[0] != "_shipped":
            whole.update(f"{path}\n".encode() + (root / path).read_bytes())
    try:
        number = version("fib-rmsnorm")
    except PackageNotFoundError:
        number = "not installed"
    return f"{number} ({whole.hexdigest()[:8]})"


def reason_to_refuse(facts: NodeFacts, *, require_sandbox: bool) -> str | None:
    """Why a node may not take part; None if it may."""
    if facts.tool != tool_version():
        return f"it has fib-rmsnorm {facts.tool}, this machine {tool_version()}: install the same on both"
    if facts.clock > time.time() + _MOST_AHEAD_S:
        return f"its clock is {facts.clock - time.time():.0f} s ahead of this machine's: set both right"
    if require_sandbox and facts.gaps:
        return f"--require-sandbox: {'; '.join(facts.gaps)}"
    return None


class DeviceActor:
    """Evaluates on one device, as a bench on this node would. Ray makes an actor of it."""

    def __init__(self, kind: str, settings: Settings, timeout_s: float) -> None:
        """`kind` is `cpu`, or `cuda` for the one GPU that Ray shows to this process."""
        self._kind = kind
        self._settings = settings
        self._timeout_s = timeout_s
        self._device: Device
        self._fork_server: ForkServer
        self._scheduler: Scheduler

    def start(self) -> NodeFacts:
        """Start what evaluates, and tell what the node is. Raises InputError if it has no such device."""
        _undo_settings_of_ray()
        self._fork_server = ForkServer(ROLES)
        self._device = choose_devices(self._kind)[0]
        # It records nothing: the driver's user does, and has the key that seals.
        config = RunConfig(self._settings, self._timeout_s)
        self._scheduler = Scheduler(self._fork_server, [self._device], config)
        return describe_node(self._device)

    def find_readiness(self, solutions: Sequence[Solution]) -> list[Capability]:
        """The ability of each Solution on the device."""
        return [readiness(solution, self._device) for solution in solutions]

    def evaluate(self, group: Group) -> Generator[Event]:
        """Judge Solutions on one Workload and time those that are right, as `Scheduler.run` does."""
        yield from self._scheduler.run(Plan([group]))


def _undo_settings_of_ray() -> None:
    """Have the environment and the import path of the node's user.

    Ray sets the number of OpenMP's threads, and adds its own packages and the driver's folders to the path.
    """
    gpu: dict[str, Any] = {_GPU_CHOICE: os.environ[_GPU_CHOICE]} if _GPU_CHOICE in os.environ else {}
    of_user = psutil.Process(os.getppid()).environ()
    for name in os.environ.keys() - of_user.keys():
        if not name.startswith("RAY_"):
            del os.environ[name]
    os.environ.update({name: value for name, value in of_user.items() if not name.startswith("RAY_")} | gpu)
    found = subprocess.run([sys.executable, "-c", _PRINT_PATH], capture_output=True, text=True, check=True)
    sys.path[:] = found.stdout.strip().split(os.pathsep)
