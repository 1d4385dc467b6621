"""Traces to the table by which a model's norms choose their kernels.

On each measured shape the Solutions of the chosen authors are ordered by their latency and a share of what a call costs
the host: a model that is not captured in a graph waits for the host wherever a kernel takes less. Those that may be as
fast as the fastest have its latency.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fib_rmsnorm.analysis.results import Place, SectionResults, WorkloadResults
from fib_rmsnorm.deployment.winner_table import Candidate, MeasuredShape, OperatorWinners, Shape, WinnerTable
from fib_rmsnorm.operators.operator import list_operators
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.selection import operator_of
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.schema import Definition, Solution, digest

_UNMEASURED_ORDER = ("cpp", "cuda", "triton")
"""The languages that serve where nothing was measured: by what a call costs the host. The rest compile per shape."""

_HOST_SHARE = 0.1
"""A microsecond of the host's time counts as so many of the device's, because most of it passes while the device works.

The gradients of 4096 fused rows took an H100 0.6 us longer by CUDA than by Triton, and its host 47 us less.
"""


@dataclass(frozen=True)
class Deployable:
    """The Solutions that a table may name, and the Definitions that they serve."""

    solutions: Mapping[str, Solution]
    digests: Mapping[str, str]
    definitions: Mapping[str, Definition]
    operators: Mapping[str, str]
    """The operator of each Definition, by name."""


def find_deployable(registry: Registry, authors: Sequence[str]) -> Deployable:
    """The Solutions of these authors for Definitions that are named after an operator: `rmsnorm_d4096`."""
    known = {each.name for each in list_operators()}
    definitions = registry.definitions()
    named = {name: operator_of(name) for name in definitions}
    operators = {name: operator for name, operator in named.items() if operator in known and operator != name}
    solutions = {
        name: each
        for name, each in read_current(registry).by_name.items()
        if each.author in authors and each.definition in operators
    }
    return Deployable(solutions, {name: digest(each) for name, each in solutions.items()}, definitions, operators)


def make_table(sections: Iterable[SectionResults], deployable: Deployable) -> WinnerTable:
    """The table of all operators that have a deployable Solution. Traces of other sources than today's do not count."""
    measured: dict[str, dict[str, dict[Shape, MeasuredShape]]] = {}
    for section in sections:
        operator = deployable.operators.get(section.definition)
        if operator is None:
            continue
        of_device = measured.setdefault(operator, {}).setdefault(section.conditions.hardware, {})
        for workload in section.workloads:
            found = _measure(workload, deployable)
            if found is not None:
                of_device.setdefault(found.shape, found)  # under several conditions the first counts
    operators = sorted({deployable.operators[each.definition] for each in deployable.solutions.values()})
    return WinnerTable(
        {
            operator: OperatorWinners(
                _list_unmeasured(operator, deployable),
                {device: tuple(shapes.values()) for device, shapes in measured.get(operator, {}).items() if shapes},
            )
            for operator in operators
        }
    )


def _measure(workload: WorkloadResults, deployable: Deployable) -> MeasuredShape | None:
    ours = [
        result
        for result in workload.results
        if deployable.digests.get(result.record.solution, "") == result.record.solution_sha256
    ]
    places = replace(workload, results=tuple(ours)).places
    if not places:
        return None

    fastest_us = _latency_us(places[0])

    def cost_us(place: Place) -> float:
        latency_us = fastest_us if place.is_tied else _latency_us(place)
        host_us = place.result.record.host_overhead_us  # unknown on a CPU, whose kernels are its own calls
        return round(latency_us + _HOST_SHARE * (host_us or 0.0), 2)

    candidates = tuple(
        Candidate(place.result.record.solution, round(_latency_us(place), 3), place.result.record.place)
        for place in sorted(places, key=cost_us)
    )
    shape = _shape_of(workload, deployable.definitions[workload.results[0].record.definition])
    return MeasuredShape(shape, candidates)


def _latency_us(place: Place) -> float:
    return 1e3 * (place.result.record.latency_ms or 0.0)


def _shape_of(workload: WorkloadResults, definition: Definition) -> Shape:
    (rows,) = workload.results[0].record.axes.values()
    (hidden,) = (axis.value for axis in definition.axes.values() if axis.type == "const")
    weight = definition.inputs.get("weight")
    return Shape(rows, hidden, definition.inputs["x"].dtype.value, weight.dtype.value if weight else None)


def _list_unmeasured(operator: str, deployable: Deployable) -> dict[str, tuple[str, ...]]:
    mine = [each for each in deployable.solutions.values() if deployable.operators[each.definition] == operator]
    by_language = {each.spec.language.value: each for each in sorted(mine, key=lambda each: each.name)}
    order = [by_language[language] for language in _UNMEASURED_ORDER if language in by_language]
    kinds = {
        "cpu": [each.name for each in order if each.spec.language.value == "cpp"],
        "cuda": [each.name for each in order if each.spec.language.value != "cpp"],
    }
    return {kind: tuple(names) for kind, names in kinds.items() if names}
