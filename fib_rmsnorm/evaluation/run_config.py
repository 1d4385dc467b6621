"""The configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.schema import Settings

_MEMORY_SHARE = 0.75


@dataclass(frozen=True)
class RunConfig:
    """The settings, limits and folders that every evaluation of a run shares."""

    settings: Settings
    timeout_s: float
    """The limit for a build, and for an evaluation."""
    dataset: Path | None = None
    """The folder to which the paths of safetensors inputs are relative."""
    memory_limit_bytes: int = int(psutil.virtual_memory().total * _MEMORY_SHARE)
    """The limit of a worker's and its descendants' resident memory."""
    sealer: Sealer = field(default_factory=lambda: Sealer(None))
    """Seals the Traces; without a key, they say nothing of who recorded them."""
    drafts: Path | None = None
    """The folder for what drafts build; None for that of all builds."""
