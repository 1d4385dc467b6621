"""Check Definitions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fib_rmsnorm.registry.validation.constraints import holds, names_in
from fib_rmsnorm.registry.validation.dataset import Dataset, Record, check_place, check_unique
from fib_rmsnorm.registry.validation.finding import Finding
from fib_rmsnorm.registry.workload_generation import find_empty_axis
from fib_rmsnorm.schema import Definition

_BASELINE = "baseline"


def check_definitions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names, axes, constraints, and the descriptions and companions that upstream's reports need."""
    yield from check_unique(dataset.definitions, "a Definition named", lambda d: d.name)
    for record in dataset.definitions:
        definition = record.model
        yield from check_place(record, partial(dataset.layout.definition, definition.op_type, definition.name))
        yield from _check_axes(record)
        yield from _check_constraints(record)
        yield from _check_descriptions(record)
        yield from _check_company(dataset, record)


def _check_axes(record: Record[Definition]) -> Iterator[Finding]:
    """Check that no tensor is empty because of a constant axis."""
    if axis := find_empty_axis(record.model):
        yield record.error(f"axis {axis!r} is 0; it must be positive")


def _check_constraints(record: Record[Definition]) -> Iterator[Finding]:
    axes = record.model.const_axes
    for constraint in record.model.constraints:
        if holds(constraint, axes) is False:
            values = ", ".join(f"{name}={axes[name]}" for name in axes if name in names_in(constraint))
            yield record.error(f"constraint {constraint!r} does not hold ({values})")


def _check_descriptions(record: Record[Definition]) -> Iterator[Finding]:
    definition = record.model
    described = {"the Definition": definition.description}
    for group in ("axes", "inputs", "outputs"):
        described |= {f"{group}.{name}": spec.description for name, spec in getattr(definition, group).items()}
    missing = [what for what, text in described.items() if not text]
    if missing:
        yield record.warning(f"no description for {', '.join(missing)}")


def _check_company(dataset: Dataset, record: Record[Definition]) -> Iterator[Finding]:
    """Report a Definition that lacks Workloads, which a bench needs, or a baseline, which comparisons need."""
    name = record.model.name
    layout = dataset.layout
    has_workloads = any(workload.model.definition == name for workload in dataset.workloads)
    if not has_workloads and not dataset.may_hold(layout.workloads, name):
        yield record.warning(f"no Workloads; run: fib-rmsnorm workload --definition {name}")
    if layout.solutions.is_dir():
        authors = {solution.model.author for solution in dataset.solutions if solution.model.definition == name}
        if _BASELINE not in authors:
            yield record.warning(f"no Solution by author {_BASELINE!r} to compare with")
