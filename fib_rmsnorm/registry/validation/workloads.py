"""Check Workloads against their Definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from fib_rmsnorm.registry.validation.blobs import check_blob
from fib_rmsnorm.registry.validation.constraints import holds
from fib_rmsnorm.registry.validation.dataset import Dataset, Record, check_place
from fib_rmsnorm.registry.validation.finding import Finding
from fib_rmsnorm.schema import Definition, SafetensorsInput, ScalarInput, Trace


def check_workloads(dataset: Dataset) -> Iterator[Finding]:
    """Check that each Workload lies in its Definition's file and gives exactly the values that it needs."""
    seen: dict[tuple[str, str], Record[Trace]] = {}
    for record in dataset.workloads:
        if not record.model.is_workload_trace():
            yield record.error("a Workload has neither solution nor evaluation; Traces belong in traces/")
        key = (record.model.definition, record.model.workload.uuid)
        if key in seen:
            first = seen[key]
            yield record.error(f"uuid {key[1]!r} is already used: {first.place}:{first.line}")
        seen.setdefault(key, record)
        yield from _check_against_definition(dataset, record)


def _check_against_definition(dataset: Dataset, record: Record[Trace]) -> Iterator[Finding]:
    name = record.model.definition
    definition = dataset.definition_of.get(name)
    if definition is None:
        if not dataset.may_hold(dataset.layout.definitions, name):
            yield record.error(f"no Definition {name!r}")
        return
    yield from check_place(record, partial(dataset.layout.workload_file, definition.op_type, name))
    faults = [*_check_axes(record, definition), *_check_inputs(record, definition)]
    yield from faults
    if not faults:
        yield from _check_constraints(record, definition)
        yield from _check_blobs(record, definition)


def _check_axes(record: Record[Trace], definition: Definition) -> Iterator[Finding]:
    """Check that exactly the variable axes have values, and that these are positive."""
    axes = record.model.workload.axes
    for name in definition.var_axes:
        if name not in axes:
            yield record.error(f"axis {name!r} is missing")
        elif axes[name] <= 0:
            yield record.error(f"axis {name!r} is {axes[name]}; it must be positive")
    for name in axes:
        if name not in definition.var_axes:
            why = "constant in" if name in definition.axes else "unknown to"
            yield record.error(f"axis {name!r} is {why} {definition.name}; give only variable axes")


def _check_inputs(record: Record[Trace], definition: Definition) -> Iterator[Finding]:
    inputs = record.model.workload.inputs
    for name in inputs:
        if name not in definition.inputs:
            yield record.error(f"{definition.name} has no input {name!r}")
    for name, spec in definition.inputs.items():
        given = inputs.get(name)
        if spec.shape is None and not isinstance(given, ScalarInput):
            yield record.error(f"scalar input {name!r} has no value")
        elif given is None:
            yield record.error(f"input {name!r} is missing")
        elif spec.shape is not None and isinstance(given, ScalarInput):
            yield record.error(f"input {name!r} is a scalar; {definition.name} takes a tensor")
        elif isinstance(given, ScalarInput) and not math.isfinite(given.value):
            yield record.error(f"scalar input {name!r} is {given.value}, which is not a JSON number")


def _check_constraints(record: Record[Trace], definition: Definition) -> Iterator[Finding]:
    sizes = {**definition.const_axes, **record.model.workload.axes}
    for constraint in definition.constraints:
        # A constraint that already fails on the constant axes is reported at the Definition.
        if holds(constraint, sizes) is False and holds(constraint, definition.const_axes) is None:
            yield record.error(f"constraint {constraint!r} of {definition.name} does not hold")


def _check_blobs(record: Record[Trace], definition: Definition) -> Iterator[Finding]:
    workload = record.model.workload
    sizes = {**definition.const_axes, **workload.axes}
    for name, given in workload.inputs.items():
        spec = definition.inputs[name]
        if isinstance(given, SafetensorsInput) and spec.shape is not None:
            problem = check_blob(record.root, given, [sizes[axis] for axis in spec.shape], spec.dtype.value)
            if problem:
                yield record.error(f"input {name!r}: {problem}")
