"""Choose launch parameters from timings: the fewest choices that are within a tolerance of the best everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt

from fib_rmsnorm.registry.selection import row_size
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.table import Choice
from fib_rmsnorm.tuning.tunable import Parameters, parameters_of

TOLERANCE = 0.01
"""The slowdown up to which a choice counts as equal to the best: repeated measurements differ by as much."""

Timings = Mapping[int, Mapping[Parameters, float]]
"""Latency in milliseconds by batch and parameters."""


def choose(shape: Mapping[str, int], timings: Timings) -> list[Choice]:
    """Choose parameters for each batch of a shape, and keep a choice for as many batches as possible.

    Between two measured batches, the border is their geometric mean.
    """
    batches = sorted(timings)
    choices = []
    min_batch = 0
    while batches:
        chosen, reach = _reach_farthest(timings, batches)
        here, batches = batches[:reach], batches[reach:]
        choices.append(Choice(shape, min_batch, dict(chosen), _describe(timings, chosen, here)))
        if batches:
            min_batch = isqrt(here[-1] * batches[0]) + 1
    return choices


def _reach_farthest(timings: Timings, batches: Sequence[int]) -> tuple[Parameters, int]:
    """Return the parameters that stay good for the most batches, and that number; a tie goes to the fastest."""
    losses = {each: [_loss(timings[batch], each) for batch in batches] for each in timings[batches[0]]}

    def reach(loss: Sequence[float]) -> int:
        return next((count for count, value in enumerate(loss) if value > TOLERANCE), len(loss))

    farthest = max(reach(loss) for loss in losses.values())
    good = [each for each, loss in losses.items() if reach(loss) == farthest]
    return min(good, key=lambda each: (sum(losses[each][:farthest]), each)), farthest


def _loss(timings: Mapping[Parameters, float], parameters: Parameters) -> float:
    """The slowdown relative to the best parameters."""
    best = min(timings.values())
    return timings[parameters] / best - 1 if parameters in timings else float("inf")


def _describe(timings: Timings, chosen: Parameters, batches: Iterable[int]) -> str:
    told = []
    for batch in batches:
        loss = _loss(timings[batch], chosen)
        behind = f" (+{loss:.1%})" if loss >= 0.0005 else ""
        told.append(f"{batch}: {timings[batch][chosen] * 1e3:.2f} us{behind}")
    return ", ".join(told)


def collect_timings(traces: Iterable[Trace]) -> dict[int, dict[Parameters, float]]:
    """The newest latency for each batch and parameters, without failed and interpreted evaluations."""
    found: dict[int, dict[Parameters, float]] = {}
    for trace in sorted(traces, key=lambda each: each.evaluation.timestamp if each.evaluation else ""):
        performance = trace.evaluation.performance if trace.evaluation else None
        batch = row_size(trace.workload.axes)
        if batch is not None and performance and performance.latency_ms > 0 and not performance.interpreted:
            found.setdefault(batch, {})[parameters_of(trace)] = performance.latency_ms
    return found
