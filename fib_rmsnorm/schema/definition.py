"""Definition and its parts: what a kernel computes."""

from __future__ import annotations

import ast
from enum import Enum
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from fib_rmsnorm.schema.field_types import NonEmptyString, NonNegativeInt

_NOT_PARSED = (SyntaxError, RecursionError, MemoryError)
"""What Python says to source that it cannot read: versions differ in the last two, for what is nested too deeply."""


def _describe_fault(error: BaseException) -> str:
    return str(error) if isinstance(error, SyntaxError) else "too deeply nested for Python"


class AxisConst(BaseModel):
    """An axis whose size the Definition fixes."""

    type: Literal["const"] = "const"
    value: NonNegativeInt
    description: str | None = None


class AxisVar(BaseModel):
    """An axis whose size each Workload chooses."""

    type: Literal["var"] = "var"
    description: str | None = None


class DType(str, Enum):
    """The dtype of a tensor's elements, or of a scalar."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1 = "float4_e2m1"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    BOOL = "bool"


class TensorSpec(BaseModel):
    """An input or output."""

    shape: list[NonEmptyString] | None
    """The names of its axes; None for a scalar."""
    dtype: DType
    description: str | None = None


class Definition(BaseModel):
    """What a kernel computes: its axes, inputs and outputs in the order of the kernel's parameters, and a reference."""

    name: NonEmptyString
    op_type: NonEmptyString
    axes: dict[NonEmptyString, AxisConst | AxisVar]
    inputs: dict[NonEmptyString, TensorSpec]
    outputs: dict[NonEmptyString, TensorSpec]
    reference: NonEmptyString
    """Python source with a function `run` that takes the inputs and returns the outputs."""
    tags: list[NonEmptyString] = Field(default_factory=list)
    description: str | None = None
    constraints: list[NonEmptyString] = Field(default_factory=list)
    """Python expressions over the axes, such as `hidden % 128 == 0`."""

    @model_validator(mode="after")
    def _check_reference(self) -> Definition:
        try:
            module = ast.parse(self.reference)
        except _NOT_PARSED as error:
            raise ValueError(f"Reference must be valid Python code: {_describe_fault(error)}") from error
        if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in module.body):
            raise ValueError("Reference must define a top-level function named 'run'")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Definition:
        if self.inputs.keys() & self.outputs.keys():
            raise ValueError("Input and output names must not overlap")
        return self

    @model_validator(mode="after")
    def _check_constraints(self) -> Definition:
        try:
            for constraint in self.constraints:
                ast.parse(constraint, mode="eval")
        except _NOT_PARSED as error:
            raise ValueError(f"Constraints must be valid Python expressions: {_describe_fault(error)}") from error
        return self

    @model_validator(mode="after")
    def _check_shapes(self) -> Definition:
        for name, spec in {**self.inputs, **self.outputs}.items():
            for axis in spec.shape or ():
                if axis not in self.axes:
                    which = "Input" if name in self.inputs else "Output"
                    raise ValueError(f'{which} "{name}" references undefined axis "{axis}"')
        return self

    @cached_property
    def const_axes(self) -> dict[str, int]:
        """The sizes of the constant axes by name."""
        return {name: axis.value for name, axis in self.axes.items() if isinstance(axis, AxisConst)}

    @cached_property
    def var_axes(self) -> list[str]:
        """The names of the variable axes."""
        return [name for name, axis in self.axes.items() if isinstance(axis, AxisVar)]
