"""Check Definitions, and Workloads against them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fib_rmsnorm.registry.files.tensor_files import check_blob
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding, Record, check_place, check_unique
from fib_rmsnorm.registry.workload_generation import find_empty_axis
from fib_rmsnorm.schema import Definition, SafetensorsInput, ScalarInput, Trace, Workload


def check_definitions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names and axes."""
    yield from check_unique(dataset.definitions, "a Definition named", lambda d: d.name)
    for record in dataset.definitions:
        definition = record.model
        yield from check_place(record, partial(dataset.layout.definition, definition.op_type, definition.name))
        if axis := find_empty_axis(definition):
            yield record.error(f"axis {axis!r} is 0; it must be positive")


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
        name = record.model.definition
        definition = dataset.definition_of.get(name)
        if definition is not None:
            yield from check_place(record, partial(dataset.layout.workload_file, definition.op_type, name))
            yield from map(record.error, find_workload_faults(record.root, definition, record.model.workload))
        elif not dataset.may_hold(dataset.layout.definitions, name):
            yield record.error(f"no Definition {name!r}")


def find_workload_faults(root: Path, definition: Definition, workload: Workload) -> list[str]:
    """Say what in a Workload does not fit its Definition, or the tensors below `root` that it reads."""
    faults = [*_check_axes(definition, workload), *_check_inputs(definition, workload)]
    return faults or [*_check_blobs(root, definition, workload)]


def _check_axes(definition: Definition, workload: Workload) -> Iterator[str]:
    """Check that exactly the variable axes have values, and that these are positive."""
    axes = workload.axes
    for name in definition.var_axes:
        if name not in axes:
            yield f"axis {name!r} is missing"
        elif axes[name] <= 0:
            yield f"axis {name!r} is {axes[name]}; it must be positive"
    for name in axes:
        if name not in definition.var_axes:
            why = "constant in" if name in definition.axes else "unknown to"
            yield f"axis {name!r} is {why} {definition.name}; give only variable axes"


def _check_inputs(definition: Definition, workload: Workload) -> Iterator[str]:
    inputs = workload.inputs
    for name in inputs:
        if name not in definition.inputs:
            yield f"{definition.name} has no input {name!r}"
    for name, spec in definition.inputs.items():
        given = inputs.get(name)
        if spec.shape is None and not isinstance(given, ScalarInput):
            yield f"scalar input {name!r} has no value"
        elif given is None:
            yield f"input {name!r} is missing"
        elif spec.shape is not None and isinstance(given, ScalarInput):
            yield f"input {name!r} is a scalar; {definition.name} takes a tensor"
        elif isinstance(given, ScalarInput) and not math.isfinite(given.value):
            yield f"scalar input {name!r} is {given.value}, which is not a JSON number"


def _check_blobs(root: Path, definition: Definition, workload: Workload) -> Iterator[str]:
    sizes = {**definition.const_axes, **workload.axes}
    for name, given in workload.inputs.items():
        spec = definition.inputs[name]
        if isinstance(given, SafetensorsInput) and spec.shape is not None:
            problem = check_blob(root, given, [sizes[axis] for axis in spec.shape], spec.dtype.value)
            if problem:
                yield f"input {name!r}: {problem}"
