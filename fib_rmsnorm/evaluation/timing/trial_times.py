"""The measurements of a trial, and which of its calls count. A worker sends them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, FiniteFloat

from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, Sample
from fib_rmsnorm.schema import KernelLaunch

Latency = Annotated[FiniteFloat, Field(ge=0)]

# The fewest calls of which some make a 95% interval of their median.
_FEWEST_UNDISTURBED = 6
# A smaller share of the cores is not named as a cause.
_LEAST_CAUSE = 0.02


@dataclass(frozen=True)
class TrialTimes:
    """One value for each timed call, and the launches of the last call."""

    span_ms: Annotated[list[Latency], Field(min_length=1)]
    busy_ms: Annotated[list[Latency], Field(min_length=1)]
    pieces: Annotated[list[int], Field(min_length=1)]
    launches: Annotated[list[KernelLaunch], Field(max_length=MAX_LAUNCHES)] | None
    """The first kernels of the last call, in the order of their start; None if the timer does not record kernels."""
    disturbed: Annotated[list[bool], Field(min_length=1)]
    """The calls whose threads had to wait for a core, on a CPU."""

    @property
    def undisturbed_ms(self) -> list[float]:
        """The spans of the calls that nothing disturbed."""
        return [span for span, is_disturbed in zip(self.span_ms, self.disturbed, strict=True) if not is_disturbed]


def collect(samples: Sequence[Sample]) -> TrialTimes:
    """Convert the samples of a trial to lists. There must be at least one."""
    launches = samples[-1].launches
    return TrialTimes(
        span_ms=[sample.span_ms for sample in samples],
        busy_ms=[sample.busy_ms for sample in samples],
        pieces=[sample.pieces for sample in samples],
        launches=None if launches is None else list(launches),
        disturbed=[sample.is_disturbed for sample in samples],
    )


@dataclass(frozen=True)
class ChosenCalls:
    """The calls of trials that count, by trial; some trials may have none."""

    trials_ms: list[list[float]]
    all_ms: list[list[float]]
    """Those that do not count too."""
    disturbed: int
    """The number of calls whose threads had to wait for a core."""
    doubt: str | None
    """That too few calls were undisturbed: then their time is only known to be at most that of disturbed ones."""


def choose_calls(trials: Sequence[TrialTimes], other_share: float | None = None) -> ChosenCalls:
    """Choose the undisturbed calls. All count if none is, or if too few are though nobody else used the cores.

    `other_share` is the share of the cores that other processes took meanwhile, if known.
    """
    everything, undisturbed = [trial.span_ms for trial in trials], [trial.undisturbed_ms for trial in trials]
    timed, found = (sum(map(len, some)) for some in (everything, undisturbed))
    disturbed = timed - found
    if found >= min(_FEWEST_UNDISTURBED, timed / 2):
        return ChosenCalls(undisturbed, everything, disturbed, None)
    if other_share is not None and other_share < _LEAST_CAUSE:
        return ChosenCalls(everything, everything, disturbed, None)  # a call's own threads are more than the cores
    cause = "" if other_share is None else f": other processes took {other_share:.0%} of the cores"
    doubt = f"only {found} of {timed} calls undisturbed{cause}"
    return ChosenCalls(undisturbed if found else everything, everything, disturbed, doubt)
