"""What a timer tells of a trial. A worker sends it as it is: a new fact of it concerns no message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, FiniteFloat

from fib_rmsnorm.evaluation.timing.timer import MOST_LAUNCHES, Sample
from fib_rmsnorm.schema import KernelLaunch

Latency = Annotated[FiniteFloat, Field(ge=0)]


@dataclass(frozen=True)
class TrialTimes:
    """A value for each timed call, and what the last of them launched."""

    span_ms: Annotated[list[Latency], Field(min_length=1)]
    busy_ms: Annotated[list[Latency], Field(min_length=1)]
    pieces: Annotated[list[int], Field(min_length=1)]
    launches: Annotated[list[KernelLaunch], Field(max_length=MOST_LAUNCHES)] | None
    """The first kernels of its last call, in the order they started; None where the timer has no records of them."""


def collect(samples: Sequence[Sample]) -> TrialTimes:
    """The samples of a trial, of which there is one at least, as lists."""
    launches = samples[-1].launches
    return TrialTimes(
        span_ms=[sample.span_ms for sample in samples],
        busy_ms=[sample.busy_ms for sample in samples],
        pieces=[sample.pieces for sample in samples],
        launches=None if launches is None else list(launches),
    )
