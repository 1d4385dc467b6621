"""Make a Definition from a file in KernelBench's form: `class Model`, `get_inputs()` and `get_init_inputs()`.

The file is other people's code: a worker runs it, on tensors without memory, and describes them. As in KernelBench, a
Model and the `ModelNew` that replaces it are made after the same seed, so their parameters are the same.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from fib_rmsnorm import syntax_trees
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.sources.python_module import read_module
from fib_rmsnorm.registry.store import describe, read_text
from fib_rmsnorm.registry.workload_generation import DEFAULT_BATCH_SIZES, generate_workloads
from fib_rmsnorm.schema import AxisConst, AxisVar, Definition, DType, TensorSpec, Workload

_OP_TYPE, _MAKER = "kernelbench", "_make_model"
_NEEDED = ("Model", "get_inputs", "get_init_inputs")
_BYTES = 1 << 16
_SCALARS = {"float": "float32", "int": "int64", "bool": "bool"}
_RANDOM = {"rand", "randn", "mul", "add", "sub", "detach"}
"""Operations after which values are still any: a right kernel is right on those of N(0, 1) too."""
_DESCRIBE = f"""

def run():
    from fib_rmsnorm.evaluation.worker.model_description import describe_model

    return describe_model(Model, get_inputs, get_init_inputs, {_BYTES})
"""
_RUN = '''

def _make_model(device, made={{}}):
    """The Model on a device, with the parameters that KernelBench's seeding gives it."""
    import torch

    if device not in made:
        torch.manual_seed(0)
        made[device] = Model({arguments}).to(device).requires_grad_(False)
    return made[device]


def run({names}):
    return _make_model({first}.device)({names})
'''


class _Value(BaseModel):
    """An input or output: a tensor, or a number."""

    dtype: str
    shape: list[int | None] | None = None
    """None for the size of the rows."""
    value: float | int | bool | None = None
    origin: list[str] = []
    """The operations that made it."""


class _Description(BaseModel):
    """The answer of a worker, which anyone's code may have written."""

    names: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]]
    arguments: str
    rows: int | None
    inputs: Annotated[list[_Value], Field(min_length=1)]
    outputs: Annotated[list[_Value], Field(min_length=1)]


def make_describing(path: Path) -> Definition:
    """A Definition without inputs, whose reference describes the Model of a file in its only output, bytes.

    Raises InputError for a file that is not in KernelBench's form.
    """
    text = read_text(path)
    module = read_module(path, text)
    lacking = [name for name in _NEEDED if name not in {**module.functions, **module.classes, **module.values}]
    if lacking:
        raise InputError(f"{path}: has no {lacking[0]}; a file in KernelBench's form has {', '.join(_NEEDED)}")
    return Definition(
        name=check_name(path.stem, "definition"),
        op_type=_OP_TYPE,
        axes={"bytes": AxisConst(value=_BYTES)},
        inputs={},
        outputs={"described": TensorSpec(shape=["bytes"], dtype=DType.INT8)},
        reference=f"{text.rstrip()}\n{_DESCRIBE}",
    )


def make_definition(path: Path, described: bytes) -> tuple[Definition, list[Workload]]:
    """The Definition of a file, from what a worker said of it, and Workloads: its own rows, and fewer.

    Raises InputError that says why the file has none.
    """
    try:
        found = _Description.model_validate_json(described)
        return _make(path, found)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def _make(path: Path, found: _Description) -> tuple[Definition, list[Workload]]:
    names = found.names[: len(found.inputs)]
    if len(names) < len(found.inputs):
        raise InputError(f"{path}: forward takes {len(names)} inputs by name, and get_inputs makes {len(found.inputs)}")
    for name, each in zip(names, found.inputs, strict=True):
        made = {*each.origin} - _RANDOM
        if each.shape is not None and made and each.dtype != "torch.bool":
            means = f"{name} holds what {' and '.join(sorted(made))} made of it"
            raise InputError(f"{path}: {means}; a Workload can ask for values of N(0, 1) alone")
    try:
        ast.literal_eval(f"[{found.arguments}]")
    except (SyntaxError, ValueError):
        raise InputError(f"{path}: get_init_inputs must make literals") from None
    inputs = dict(zip(names, found.inputs, strict=True))
    tensors = [name for name, each in inputs.items() if each.shape is not None]
    if not tensors:
        raise InputError(f"{path}: no input is a tensor")
    rows = "rows" if "batch" in names else "batch"
    outputs = ["out", *(f"out_{at}" for at in range(1, len(found.outputs)))]
    outputs = [f"{name}_" if name in names else name for name in outputs]
    sizes = sorted({size for each in (*found.inputs, *found.outputs) for size in each.shape or () if size is not None})

    def specify(each: _Value) -> TensorSpec:
        shape = None if each.shape is None else [rows if size is None else f"d{size}" for size in each.shape]
        return TensorSpec.model_validate(
            {"shape": shape, "dtype": _SCALARS.get(each.dtype, each.dtype.removeprefix("torch."))}
        )

    text = _RUN.format(arguments=found.arguments, names=", ".join(names), first=tensors[0])
    varying: dict[str, AxisVar | AxisConst] = {rows: AxisVar()} if found.rows else {}
    definition = Definition(
        name=path.stem,
        op_type=_OP_TYPE,
        description=f"The Model of {path.name}, in KernelBench's form.",
        axes={**varying, **{f"d{size}": AxisConst(value=size) for size in sizes}},
        inputs={name: specify(each) for name, each in inputs.items()},
        outputs={name: specify(each) for name, each in zip(outputs, found.outputs, strict=True)},
        reference=f"{read_text(path).rstrip()}\n{text}",
    )
    values = {name: each.value for name, each in inputs.items() if each.value is not None}
    fewer = [size for size in DEFAULT_BATCH_SIZES if size < found.rows] if found.rows else []
    return definition, generate_workloads(definition, [*fewer, found.rows] if found.rows else None, scalars=values)


def find_arguments(definition: Definition) -> str | None:
    """The arguments with which a Definition's reference makes its Model; None if `make_definition` did not make it."""
    nodes = ast.walk(syntax_trees.parse(definition.reference)) if _MAKER in definition.reference else ()
    makers = [each for each in nodes if isinstance(each, ast.FunctionDef) and each.name == _MAKER]
    calls = [each for maker in makers for each in ast.walk(maker) if isinstance(each, ast.Call)]
    made = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Model"]
    return ast.unparse(made[0]).removeprefix("Model(").removesuffix(")") if made else None
