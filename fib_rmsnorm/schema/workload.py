"""Workload and its inputs: on what a kernel is evaluated."""

from __future__ import annotations

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


class Workload(BaseModel):
    """The sizes of a Definition's variable axes, and its inputs."""

    axes: dict[str, NonNegativeInt]
    inputs: dict[str, RandomInput | SafetensorsInput | ScalarInput]
    uuid: NonEmptyString
