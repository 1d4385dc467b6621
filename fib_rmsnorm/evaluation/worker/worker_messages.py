"""What a worker may answer. A solution's process can send anything, so every answer is checked on arrival."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, FiniteFloat

from fib_rmsnorm.evaluation.timing.timer import MOST_ATTEMPTS

Status = Literal["COMPILE_ERROR", "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR"]


Latency = Annotated[FiniteFloat, Field(ge=0)]


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


class Effects(BaseModel):
    """What calls did besides computing their outputs."""

    changed_inputs: list[str]
    overrun: list[str]
    """Outputs beyond whose ends something was written."""
    changed_outputs: list[str] = Field(default_factory=list)
    """Outputs that changed after their call had returned."""


class Called(Effects):
    """The solution was called and its outputs are handed over."""

    ok: Literal[True]
    call_ms: Latency


class TimingPrepared(BaseModel):
    """The solution is ready to be timed."""

    ok: Literal[True]
    timer: str
    tick_ms: Latency
    operators: list[str] | None
    """Of torch, that its first call ran; None where nobody asks."""


class Timed(BaseModel):
    """One trial: a value for each timed call."""

    ok: Literal[True]
    span_ms: list[Latency] = Field(min_length=1)
    busy_ms: list[Latency] = Field(min_length=1)
    pieces: list[int] = Field(min_length=1)
    clock_ns: int
    """What the worker's clock, which is the system's, read at the end."""
    repeated: list[Annotated[str, Field(max_length=500)]] = Field(max_length=MOST_ATTEMPTS - 1)
    """What went wrong with attempts before it."""


class Revealed(Effects):
    """The outputs of a timed call are handed over, with the numbers of its inputs and of some before it."""

    ok: Literal[True]
    number: int = Field(ge=0, lt=1 << 63)
    earlier: list[Annotated[int, Field(ge=0, lt=1 << 63)]] = Field(max_length=4)


class Costs(BaseModel):
    """What else a call costs."""

    ok: Literal[True]
    host_overhead_us: Latency | None
    peak_memory_bytes: int | None


class Done(BaseModel):
    """The request needed no more of an answer."""

    ok: Literal[True]


Answer = TypeVar("Answer", bound=BaseModel)
