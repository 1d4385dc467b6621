"""Choose launch parameters from timings, and write them as a table into the sources of the Solution.

The fewest choices that are within a tolerance of the best everywhere. Device models may share a table. What is best
then loses least on the model where it loses most.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt
from pathlib import Path

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.selection import row_size
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.store import write_atomic
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.tunable import Choice, Parameters, TunableFolder, parameters_of, render_table

TOLERANCE = 0.01
"""The slowdown up to which a choice counts as equal to the best: repeated measurements differ by as much."""

Timings = Mapping[int, Mapping[Parameters, float]]
"""Latency in milliseconds by batch and parameters, on one device model."""


def choose(shape: Mapping[str, int], timings: Sequence[Timings]) -> list[Choice]:
    """Choose parameters for each batch of a shape, and keep a choice for as many batches as possible.

    `timings` are those of each device model that shares the table. Between two measured batches, the border is their
    geometric mean.
    """
    losses = {batch: _compare([each[batch] for each in timings if batch in each]) for each in timings for batch in each}
    batches = sorted(losses)
    choices = []
    min_batch = 0
    while batches:
        chosen, reach = _reach_farthest(losses, batches)
        here, batches = batches[:reach], batches[reach:]
        choices.append(Choice(shape, min_batch, dict(chosen), _describe(timings, chosen, here)))
        if batches:
            min_batch = isqrt(here[-1] * batches[0]) + 1
    return choices


def _compare(models: Sequence[Mapping[Parameters, float]]) -> dict[Parameters, float]:
    """How much more each combination loses, on the model where it loses most, than the one that loses least there.

    Combinations that were not measured on all models count only if none was.
    """
    everywhere = set.intersection(*map(set, models)) or set().union(*models)
    worst = {each: max(_loss(model, each) for model in models if each in model) for each in everywhere}
    least = min(worst.values())
    return {each: loss - least for each, loss in worst.items()}


def _reach_farthest(losses: Mapping[int, Mapping[Parameters, float]], batches: Sequence[int]) -> tuple[Parameters, int]:
    """Return the parameters that stay good for the most batches, and that number; a tie goes to the fastest."""
    by_parameters = {each: [losses[batch].get(each, float("inf")) for batch in batches] for each in losses[batches[0]]}

    def reach(loss: Sequence[float]) -> int:
        return next((count for count, value in enumerate(loss) if value > TOLERANCE), len(loss))

    farthest = max(map(reach, by_parameters.values()))
    good = [each for each, loss in by_parameters.items() if reach(loss) == farthest]
    return min(good, key=lambda each: (sum(by_parameters[each][:farthest]), each)), farthest


def _loss(timings: Mapping[Parameters, float], parameters: Parameters) -> float:
    return timings[parameters] / min(timings.values()) - 1


def _describe(timings: Sequence[Timings], chosen: Parameters, batches: Iterable[int]) -> str:
    """The time of each model at each batch, and how far it is behind the model's best; a dash where nobody measured."""

    def tell(latencies: Mapping[Parameters, float]) -> str:
        if chosen not in latencies:
            return "-"
        loss = _loss(latencies, chosen)
        return f"{latencies[chosen] * 1e3:.2f} us{f' (+{loss:.1%})' if loss >= 0.0005 else ''}"

    return ", ".join(f"{batch}: {' / '.join(tell(each.get(batch, {})) for each in timings)}" for batch in batches)


def collect_timings(traces: Iterable[Trace]) -> dict[int, dict[Parameters, float]]:
    """The newest latency for each batch and parameters, of what passed and was timed."""
    found: dict[int, dict[Parameters, float]] = {}
    for trace in sorted(traces, key=lambda each: each.timestamp):
        batch = row_size(trace.workload.axes)
        if batch is not None and trace.performance and trace.performance.latency_ms > 0:
            found.setdefault(batch, {})[parameters_of(trace)] = trace.performance.latency_ms
    return found


def write_table(registry: Registry, tunables: Sequence[TunableFolder], traces: Mapping[str, Sequence[Trace]]) -> Path:
    """Make the table of a source folder from the Traces of each Definition, and return its path.

    Solutions that a registry packs from these sources are packed again.
    """
    one = tunables[0]
    with locked(writing=[one.root] if one.root else []):
        write_atomic(one.table, make_table(tunables, traces), one.folder)
        if one.tuning_file is not None:
            definitions = registry.definitions()
            for solution in pack_folder(registry, one.folder, definitions):
                registry.write_solution(solution, definitions[solution.definition].op_type)
    return one.table


def make_table(tunables: Sequence[TunableFolder], traces: Mapping[str, Sequence[Trace]]) -> str:
    """Make the table from the Traces of each Definition, all of device models that share a table.

    Shapes are sorted: another order would change the Solution's digest, and its Traces would no longer belong to it.
    """
    everything = [trace for each in traces.values() for trace in each]
    models = sorted({trace.hardware for trace in everything})
    choices = []
    for tunable in sorted(tunables, key=lambda each: tuple(each.shape.values())):
        mine = traces.get(tunable.definition.name, ())
        by_model = [[each for each in mine if each.hardware == model] for model in models]
        choices += choose(tunable.shape, list(map(collect_timings, by_model)))
    evaluations = [trace.evaluation for trace in everything if trace.evaluation and trace.evaluation.performance]
    if not evaluations:
        return render_table(tunables[0].name, tunables[0].columns, choices)
    evaluations.sort(key=lambda each: each.timestamp)
    newest = evaluations[-1]
    days = {each.environment.hardware: each.timestamp[:10] for each in evaluations}
    where = " / ".join(f"{device}, {day}" for device, day in sorted(days.items()))
    timer = (newest.performance.timer if newest.performance else None) or "unknown"
    combinations = len({parameters_of(trace) for trace in everything})
    best = "is the fastest" if len(days) == 1 else "loses least on the device where it loses most"
    measured = [
        f"{where}, timer {timer}, {combinations} combinations:",
        f"each choice {best} at the batches named above it, or within 1% of it.",
    ]
    return render_table(tunables[0].name, tunables[0].columns, choices, newest.multiprocessors or 0, measured)
