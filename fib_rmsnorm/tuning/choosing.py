"""Choose launch parameters from timings: the fewest choices that are within a tolerance of the best everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt

from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.table import Entry, Provenance, Rung, in_order_of, render_table
from fib_rmsnorm.tuning.tunable import Parameters, Tunable, parameters_of, table_key

TOLERANCE = 0.01
"""The slowdown up to which a choice counts as equal to the best: repeated measurements differ by as much."""

Timings = Mapping[int, Mapping[Parameters, float]]
"""Latency in milliseconds by batch and parameters."""


def climb(timings: Timings) -> tuple[Rung, ...]:
    """Choose parameters for each batch, and keep a choice for as many batches as possible.

    Between two measured batches, the border is their geometric mean.
    """
    batches = sorted(timings)
    rungs = []
    first = 0
    while first < len(batches):
        chosen, reach = _reach_farthest(timings, batches[first:])
        here = batches[first : first + reach]
        first += reach
        border = isqrt(here[-1] * batches[first]) if first < len(batches) else None
        rungs.append(Rung(border, dict(chosen), _describe(timings, chosen, here)))
    return tuple(rungs)


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
        if performance and performance.latency_ms > 0 and not performance.interpreted:
            found.setdefault(trace.workload.axes["batch"], {})[parameters_of(trace)] = performance.latency_ms
    return found


def make_table(tunables: Sequence[Tunable], traces: Mapping[str, Sequence[Trace]]) -> str:
    """Make the table from the Traces of each Definition, all of one device model."""
    entries = []
    for tunable in tunables:
        timings = collect_timings(traces.get(tunable.definition.name, ()))
        if timings:
            entries.append(Entry(table_key(tunable.definition), climb(timings)))
    path = tunables[0].table
    entries = in_order_of(path.read_text() if path.exists() else "", entries)
    everything = [trace for each in traces.values() for trace in each]
    return render_table(tunables[0].columns, entries, _describe_provenance(everything))


def _describe_provenance(traces: Sequence[Trace]) -> Provenance | None:
    evaluations = [trace.evaluation for trace in traces if trace.evaluation and trace.evaluation.performance]
    if not evaluations:
        return None
    newest = max(evaluations, key=lambda each: each.timestamp)
    performance = newest.performance
    return Provenance(
        hardware=newest.environment.hardware,
        multiprocessors=newest.multiprocessors or 0,
        date=newest.timestamp[:10],
        timer=(performance.timer if performance else None) or "unknown",
        combinations=len({parameters_of(trace) for trace in traces}),
    )
