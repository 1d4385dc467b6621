"""What a node says of itself, and which differences between nodes matter."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.environment import library_versions
from fib_rmsnorm.sandbox.confinement import find_gaps

_TOOL = "fib-rmsnorm"
_SOURCES = (".py", ".cpp", ".cu", ".h", ".inc")
_MOST_AHEAD_S = 60.0
"""How far a node's clock may be ahead: Traces that are dated in the future are not believed."""


@dataclass(frozen=True)
class NodeFacts:
    """One device of a node, and what runs there."""

    device: Device
    gpu: str
    """The number that Ray gives the GPU on its node; empty for a CPU."""
    tool: str
    """The version of this tool, with a digest of its sources."""
    versions: Mapping[str, str]
    gaps: tuple[str, ...]
    """What the sandbox cannot keep a Solution from there."""
    clock: float
    """Seconds since 1970."""


def describe_node(device: Device) -> NodeFacts:
    """The facts of this process's node."""
    gpu = "" if device.kind == "cpu" else os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    versions = {name: number for name, number in library_versions().items() if name != _TOOL}
    return NodeFacts(device, gpu, tool_version(), versions, tuple(find_gaps()), time.time())


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
        number = version(_TOOL)
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


def describe_differences(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each library whose versions differ, from the versions of each node by its name."""
    lines = []
    for library in dict.fromkeys(library for found in versions.values() for library in found):
        nodes: dict[str, list[str]] = {}
        for node, found in versions.items():
            nodes.setdefault(found.get(library, "none"), []).append(node)
        if len(nodes) > 1:
            lines.append(f"{library} differs: {'; '.join(f'{one} on {_join(at)}' for one, at in nodes.items())}")
    return lines


def _join(nodes: Iterable[str]) -> str:
    first, *others = nodes
    return f"{first} and {len(others)} more" if others else first
