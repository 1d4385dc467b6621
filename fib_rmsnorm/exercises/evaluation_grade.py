"""The grades of evaluations: which of a student's kernels are Solutions, and which a bench evaluated as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.exercises.exercise import Task
from fib_rmsnorm.exercises.own_solution import find_own, read_passed
from fib_rmsnorm.registry import Registry

_SHARE = 5
"""The points of a kernel in each task."""


@dataclass(frozen=True)
class OwnKernel:
    """A student's kernel: its file, and the Solution to make of it."""

    title: str
    language: str
    file: str
    definition: str
    solution: str
    launches: bool = True

    @property
    def register(self) -> str:
        """The command that makes the Solution."""
        return f"fib-rmsnorm register {self.file} --name {self.solution} --author me"


@dataclass(frozen=True)
class EvaluationTask:
    """What a bench must have evaluated."""

    title: str
    batch_sizes: Sequence[int]
    traces: str
    """The file of its Traces, in the registry's root."""
    bench: str
    """The command that writes it, at all batch sizes."""
    find_batch_sizes: Callable[[list[TraceRecord]], set[int]]
    """The batch sizes for which passed Traces of a kernel say what is asked for."""
    asked: str = ""
    """That, in a remark, after `no passed Trace of it as it is`."""


def grade_evaluations(registry: Registry, kernels: Sequence[OwnKernel], wanted: EvaluationTask) -> list[Task]:
    """Grade whether each kernel is a Solution, and whether its Traces are what is wanted: two tasks.

    Raises InputError if a file cannot be read.
    """
    made, evaluated = 0, 0
    owners: list[str] = []
    faults: list[str] = []
    for kernel in kernels:
        solution, remark = find_own(registry, kernel.definition, registry.root / kernel.file, kernel.register)
        owners.append(remark)
        records = read_passed(registry, registry.root / wanted.traces, solution) if solution else []
        lacking = set(wanted.batch_sizes) - wanted.find_batch_sizes(records)
        if lacking:
            faults.append(_describe_lack(kernel, wanted, lacking))
        made += solution is not None
        evaluated += not lacking
    points = _SHARE * len(kernels)
    return [
        Task("Solutions", points, _SHARE * made, tuple(owners)),
        Task(wanted.title, points, _SHARE * evaluated, tuple(faults)),
    ]


def _describe_lack(kernel: OwnKernel, wanted: EvaluationTask, lacking: set[int]) -> str:
    sizes = ", ".join(map(str, sorted(lacking)))
    has_none = f"{kernel.title}: {wanted.traces} has no passed Trace of it as it is{wanted.asked} at batch {sizes}"
    return f"{has_none}; run: {wanted.bench} --batch-sizes {','.join(map(str, wanted.batch_sizes))}"
