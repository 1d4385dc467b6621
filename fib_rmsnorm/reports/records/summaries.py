"""Definitions in words."""

from __future__ import annotations

from fib_rmsnorm.operators.norms.norm_definitions import SHORT_DTYPES
from fib_rmsnorm.schema import AxisConst, Definition, TensorSpec

_SHORT_DTYPES = {dtype: short for short, dtype in SHORT_DTYPES.items()}


def summarize_definition(definition: Definition) -> str:
    """The name, axes, inputs and outputs in four lines."""
    axes = [
        f"{name} (const: {axis.value})" if isinstance(axis, AxisConst) else f"{name} (var)"
        for name, axis in definition.axes.items()
    ]
    return "\n".join(
        [
            f"Definition: {definition.name}",
            f"  Axes: {', '.join(axes)}",
            f"  Inputs: {_describe_tensors(definition, definition.inputs)}",
            f"  Outputs: {_describe_tensors(definition, definition.outputs)}",
        ]
    )


def _describe_tensors(definition: Definition, specs: dict[str, TensorSpec]) -> str:
    described = []
    for name, spec in specs.items():
        if spec.shape is None:
            described.append(f"{name} scalar")
            continue
        shape = ", ".join(str(definition.const_axes.get(axis, axis)) for axis in spec.shape)
        dtype = _SHORT_DTYPES.get(spec.dtype.value, spec.dtype.value)
        described.append(f"{name} [{shape}] {dtype}")
    return ", ".join(described)
