"""What a worker may answer. A solution's process can send anything, so every answer is checked on arrival."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, FiniteFloat

Status = Literal["COMPILE_ERROR", "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR"]


class Failed(BaseModel):
    """The request failed, in a way that has a status."""

    ok: Literal[False]
    status: Status
    message: str
    fatal: bool
    """Whether the process cannot be used again."""


class Built(BaseModel):
    """The solution is built."""

    ok: Literal[True]
    build_s: FiniteFloat


class Called(BaseModel):
    """The solution was called and its outputs are handed over."""

    ok: Literal[True]
    changed_inputs: list[str]


class Timed(BaseModel):
    """The solution was timed."""

    ok: Literal[True]
    samples_ms: list[Annotated[FiniteFloat, Field(ge=0)]] = Field(min_length=1)
    timer: str
    cold_l2: bool | None


Answer = TypeVar("Answer", Built, Called, Timed)
