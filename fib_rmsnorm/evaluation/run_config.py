"""The configuration of a run."""

from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import Definition, Settings, Workload

_MEMORY_SHARE = 0.75
_BYTES_IN_TIME = 128 << 20
"""Workloads that move more bytes than this take a CPU longer than a limit in seconds can foresee."""
_CALL_S, _CALL_SHARE = 15.0, 0.25


@dataclass(frozen=True)
class RunConfig:
    """The settings, limits and folders that every evaluation of a run shares."""

    settings: Settings = field(default_factory=Settings)
    timeout_s: float = 120.0
    """The limit for a build, and for an evaluation; `limit_for` raises it for large Workloads on a CPU."""
    dataset: Path | None = None
    """The folder to which the paths of safetensors inputs are relative."""
    memory_limit_bytes: int = int(psutil.virtual_memory().total * _MEMORY_SHARE)
    """The limit of a worker's and its descendants' resident memory."""
    drafts: Path | None = None
    """The folder for what drafts build; None for that of all builds."""

    def limit_for(self, definition: Definition, workload: Workload, device: Device) -> float:
        """Seconds for an evaluation of a Workload, and for each answer of the judge.

        To make the inputs and the answers of a GiB takes a CPU a minute, and several where others use it. The kernel
        is not to blame for that.
        """
        larger = bytes_moved(definition, workload) / _BYTES_IN_TIME if device.kind == "cpu" else 1.0
        return self.timeout_s * max(1.0, larger)

    def call_limit(self, limit_s: float) -> float:
        """Seconds for a call in which nothing is compiled: a hang should cost less than the longest build.

        The whole `limit_s` for a large Workload on a CPU.
        """
        return min(limit_s, max(_CALL_S, _CALL_SHARE * limit_s)) if limit_s <= self.timeout_s else limit_s
