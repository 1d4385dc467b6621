"""The measurements of a trial. A worker sends them as they are, so a new one changes no message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, FiniteFloat

from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, Sample
from fib_rmsnorm.schema import KernelLaunch

Latency = Annotated[FiniteFloat, Field(ge=0)]


@dataclass(frozen=True)
class TrialTimes:
    """One value for each timed call, and the launches of the last call."""

    span_ms: Annotated[list[Latency], Field(min_length=1)]
    busy_ms: Annotated[list[Latency], Field(min_length=1)]
    pieces: Annotated[list[int], Field(min_length=1)]
    launches: Annotated[list[KernelLaunch], Field(max_length=MAX_LAUNCHES)] | None
    """The first kernels of the last call, in the order of their start; None if the timer does not record kernels."""


def collect(samples: Sequence[Sample]) -> TrialTimes:
    """Convert the samples of a trial to lists. There must be at least one."""
    launches = samples[-1].launches
    return TrialTimes(
        span_ms=[sample.span_ms for sample in samples],
        busy_ms=[sample.busy_ms for sample in samples],
        pieces=[sample.pieces for sample in samples],
        launches=None if launches is None else list(launches),
    )
