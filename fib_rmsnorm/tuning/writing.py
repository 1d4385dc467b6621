"""Make the table from timings, write it into the sources of the Solution, and pack them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.store import write_atomic
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.choosing import choose, collect_timings
from fib_rmsnorm.tuning.table import Provenance, render_table
from fib_rmsnorm.tuning.tunable import Tunable, parameters_of


def write_table(registry: Registry, tunables: Sequence[Tunable], traces: Mapping[str, Sequence[Trace]]) -> Path:
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


def make_table(tunables: Sequence[Tunable], traces: Mapping[str, Sequence[Trace]]) -> str:
    """Make the table from the Traces of each Definition, all of device models that share a table.

    Shapes are sorted: another order would change the Solution's digest, and its Traces would no longer belong to it.
    """
    everything = [trace for each in traces.values() for trace in each]
    models = sorted({trace.evaluation.environment.hardware for trace in everything if trace.evaluation})
    choices = []
    for tunable in sorted(tunables, key=lambda each: tuple(each.shape.values())):
        mine = traces.get(tunable.definition.name, ())
        choices += choose(tunable.shape, [collect_timings(_measured_on(model, mine)) for model in models])
    return render_table(tunables[0].name, tunables[0].columns, choices, _describe_provenance(everything))


def _measured_on(hardware: str, traces: Iterable[Trace]) -> list[Trace]:
    return [each for each in traces if each.evaluation and each.evaluation.environment.hardware == hardware]


def _describe_provenance(traces: Sequence[Trace]) -> Provenance | None:
    evaluations = [trace.evaluation for trace in traces if trace.evaluation and trace.evaluation.performance]
    if not evaluations:
        return None
    evaluations.sort(key=lambda each: each.timestamp)
    newest = evaluations[-1]
    days = {each.environment.hardware: each.timestamp[:10] for each in evaluations}
    performance = newest.performance
    return Provenance(
        devices=dict(sorted(days.items())),
        multiprocessors=newest.multiprocessors or 0,
        timer=(performance.timer if performance else None) or "unknown",
        combinations=len({parameters_of(trace) for trace in traces}),
    )
