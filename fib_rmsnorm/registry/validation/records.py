"""Check Definitions, and Workloads against them."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fib_rmsnorm.registry.files.tensor_files import check_blob
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding, Record, check_place, check_unique
from fib_rmsnorm.registry.workload_generation import find_empty_axis
from fib_rmsnorm.schema import Definition, SafetensorsInput, ScalarInput, Trace, Workload
from fib_rmsnorm.syntax_trees import parse_expression

# What a constraint may compute. It is read and never executed, because datasets are not trusted.
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _UnknownError(Exception):
    """The expression needs more than arithmetic on the axes, such as a tensor's content."""


def check_definitions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names, axes and constraints."""
    yield from check_unique(dataset.definitions, "a Definition named", lambda d: d.name)
    for record in dataset.definitions:
        definition, axes = record.model, record.model.const_axes
        yield from check_place(record, partial(dataset.layout.definition, definition.op_type, definition.name))
        if axis := find_empty_axis(definition):
            yield record.error(f"axis {axis!r} is 0; it must be positive")
        for constraint in definition.constraints:
            if _holds(constraint, axes) is False:
                yield record.error(f"constraint {constraint!r} does not hold ({_values(constraint, axes)})")


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
    return faults or [*find_broken_constraints(definition, workload), *_check_blobs(root, definition, workload)]


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


def find_broken_constraints(definition: Definition, workload: Workload) -> Iterator[str]:
    """Say which of a Definition's constraints a Workload's sizes break."""
    sizes = {**definition.const_axes, **workload.axes}
    for constraint in definition.constraints:
        # A constraint that already fails on the constant axes is reported at the Definition.
        if _holds(constraint, sizes) is False and _holds(constraint, definition.const_axes) is None:
            yield f"constraint {constraint!r} of {definition.name} does not hold ({_values(constraint, sizes)})"


def _check_blobs(root: Path, definition: Definition, workload: Workload) -> Iterator[str]:
    sizes = {**definition.const_axes, **workload.axes}
    for name, given in workload.inputs.items():
        spec = definition.inputs[name]
        if isinstance(given, SafetensorsInput) and spec.shape is not None:
            problem = check_blob(root, given, [sizes[axis] for axis in spec.shape], spec.dtype.value)
            if problem:
                yield f"input {name!r}: {problem}"


def _holds(constraint: str, axes: Mapping[str, int]) -> bool | None:
    """Whether a constraint holds; None if it depends on more than `axes`."""
    try:
        return bool(_evaluate(parse_expression(constraint).body, axes))
    except (_UnknownError, SyntaxError, RecursionError, OverflowError):
        return None
    except ZeroDivisionError:
        return False


def _evaluate(node: ast.expr, axes: Mapping[str, int]) -> Any:  # noqa: PLR0911 - one return per form
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return node.value
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.UnaryOp(op=ast.Not()):
            return not _evaluate(node.operand, axes)
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluate(node.operand, axes)
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](_evaluate(node.left, axes), _evaluate(node.right, axes))
        case ast.BoolOp():
            values = [_evaluate(value, axes) for value in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            values = [_evaluate(value, axes) for value in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return all(_COMPARE[type(op)](left, right) for op, left, right in pairs)
    raise _UnknownError


def _values(constraint: str, axes: Mapping[str, int]) -> str:
    """The axes that a constraint names, with their sizes."""
    names = {node.id for node in ast.walk(parse_expression(constraint)) if isinstance(node, ast.Name)}
    return ", ".join(f"{name}={size}" for name, size in axes.items() if name in names)
