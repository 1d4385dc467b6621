"""What a validation finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing worth saying about a dataset. Only errors make it invalid."""

    level: Level
    path: str
    """Relative to the dataset's root."""
    line: int | None
    message: str
