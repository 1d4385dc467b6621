"""A finding of a validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """An error, a warning or a note about a dataset. Only errors make it invalid."""

    level: Level
    path: str
    """The path relative to the dataset's root."""
    line: int | None
    message: str
