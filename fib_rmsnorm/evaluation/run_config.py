"""What holds for every evaluation of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from fib_rmsnorm.schema import Settings

_MEMORY_SHARE = 0.75


@dataclass(frozen=True)
class RunConfig:
    """What holds for every evaluation of a run."""

    settings: Settings
    timeout_s: float
    """For a build, and for an evaluation."""
    dataset: Path | None = None
    """The folder that safetensors inputs are relative to."""
    memory_limit_bytes: int = int(psutil.virtual_memory().total * _MEMORY_SHARE)
    """Resident memory that a worker and its descendants may take."""
