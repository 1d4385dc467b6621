"""The scheduler's requests to the ceiling process, which answers with the schema's Ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict

from fib_rmsnorm.sandbox.asking import Request


class BuildCopy(Request):
    """Compile the copy for a device."""

    doing: ClassVar[str] = "building the copy"
    do: Literal["build_copy"] = "build_copy"
    device: str
    cache: Path


@dataclass(frozen=True)
class CopyBuilt:
    """The copy is compiled."""


class MeasureCeiling(Request):
    """Measure an empty call, and a copy that reads and writes given numbers of bytes."""

    model_config = ConfigDict(frozen=True)

    doing: ClassVar[str] = "measuring the copy"
    do: Literal["measure"] = "measure"
    device: str
    cache: Path
    bytes_read: int
    bytes_written: int
    cold: bool
