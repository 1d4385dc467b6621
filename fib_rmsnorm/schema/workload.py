"""Workload and its inputs: on what a kernel is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from fib_rmsnorm.schema.field_types import NonEmptyString, NonNegativeInt


class RandomInput(BaseModel):
    """A tensor of random elements."""

    type: Literal["random"] = "random"


class ScalarInput(BaseModel):
    """A number or a boolean."""

    type: Literal["scalar"] = "scalar"
    value: int | float | bool


class SafetensorsInput(BaseModel):
    """A tensor of a file."""

    type: Literal["safetensors"] = "safetensors"
    path: NonEmptyString
    """From the registry's root."""
    tensor_key: NonEmptyString

    def find(self, root: Path) -> Path | None:
        """Find the file, links followed, which may be missing; None if the path leads out of `root` or to no place."""
        try:
            found = (root / self.path).resolve()
        except ValueError:  # it has a NUL
            return None
        return found if found.is_relative_to(root.resolve()) else None


class Workload(BaseModel):
    """The sizes of a Definition's variable axes, and its inputs."""

    axes: dict[str, NonNegativeInt]
    inputs: dict[str, RandomInput | SafetensorsInput | ScalarInput]
    uuid: NonEmptyString
