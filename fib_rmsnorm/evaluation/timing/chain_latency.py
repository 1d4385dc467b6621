"""What a call costs in a chain: the statistics of trials, each of which has replays with the calls and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from fib_rmsnorm.evaluation.timing.latency_statistics import Scatter, measure_scatter
from fib_rmsnorm.evaluation.timing.trial_times import Latency

LINKS = 40
"""The links of a graph. An event's clock ticks every 0.5 us, which is 1% of a call of 1 us this way."""
_GOAL = 0.01


@dataclass(frozen=True)
class ChainTimes:
    """The milliseconds that each replay of a graph of links took, with the calls and without them."""

    with_ms: Annotated[list[Latency], Field(min_length=1)]
    without_ms: Annotated[list[Latency], Field(min_length=1)]

    @property
    def call_ms(self) -> list[float]:
        """What a call costs, by replay: both graphs ran one right after the other, so that a drift cancels out."""
        return [(full - bare) / LINKS for full, bare in zip(self.with_ms, self.without_ms, strict=False)]


def has_precise_cost(trials: Sequence[ChainTimes]) -> bool:
    """Whether the interval of a call's cost is within 1%."""
    scatter = _measure(trials)
    return scatter.latency_ms > 0 and scatter.interval.relative_to(scatter.latency_ms) <= _GOAL


def sum_up_chain(kind: str, trials: Sequence[ChainTimes]) -> dict[str, Any]:
    """The fields of the schema's Chain that begin with `kind`: the cost of a call with its interval."""
    if not trials:
        return {}
    scatter = _measure(trials)
    found = {
        "latency_ms": scatter.latency_ms,
        "low_ms": scatter.interval.low,
        "high_ms": scatter.interval.high,
        "a_a_difference": scatter.a_a_difference,
        "bare_link_ms": median(bare for trial in trials for bare in trial.without_ms) / LINKS,
        "replays": sum(len(trial.with_ms) for trial in trials),
    }
    return {f"{kind}_{name}": value for name, value in found.items()}


def _measure(trials: Sequence[ChainTimes]) -> Scatter:
    return measure_scatter([trial.call_ms for trial in trials], 0.0)
