"""Make a Definition from a file in KernelBench's form: `class Model`, `get_inputs()` and `get_init_inputs()`.

The file is other people's code: a worker runs it, on tensors without memory, and describes them. As in KernelBench, a
Model and the `ModelNew` that replaces it are made after the same seed, so their parameters are the same.
"""

import ast
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fib_rmsnorm import syntax_trees
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.sources.python_module import read_module
from fib_rmsnorm.registry.store import describe
from fib_rmsnorm.registry.workload_generation import DEFAULT_BATCH_SIZES, generate_workloads
from fib_rmsnorm.schema import AxisConst, Definition, DType, TensorSpec, Workload

_OP_TYPE, _MAKER = "kernelbench", "_make_model"
_NEEDED = ("Model", "get_inputs", "get_init_inputs")
_BYTES = 1 << 16
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


class _Description(BaseModel):
    """The answer of a worker, which anyone's code may have written."""

    definition: dict[str, Any]
    """Its axes, inputs and outputs."""
    arguments: str
    """The literals that the Model takes."""
    rows: int | None
    values: dict[str, bool | int | float]
    """The scalar inputs."""


def make_describing(path: Path) -> Definition:
    """A Definition without inputs, whose reference describes the Model of a file in its only output, bytes.

    Raises InputError for a file that is not in KernelBench's form.
    """
    text = read_text(path)
    module = read_module(syntax_trees.parse_file(path, text))
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
        ast.literal_eval(f"[{found.arguments}]")
        inputs = found.definition["inputs"]
        first = next(name for name, spec in inputs.items() if spec["shape"] is not None)
        run = _RUN.format(arguments=found.arguments, names=", ".join(inputs), first=first)
        about = f"The Model of {path.name}, in KernelBench's form."
        reference = {"description": about, "reference": f"{read_text(path).rstrip()}\n{run}"}
        definition = Definition.model_validate(
            {**found.definition, "name": path.stem, "op_type": _OP_TYPE, **reference}
        )
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None
    except (SyntaxError, ValueError):
        raise InputError(f"{path}: get_init_inputs must make literals") from None
    except StopIteration:
        raise InputError(f"{path}: no input is a tensor") from None
    rows = [size for size in DEFAULT_BATCH_SIZES if size < found.rows] + [found.rows] if found.rows else None
    return definition, generate_workloads(definition, rows, scalars=found.values)


def find_arguments(definition: Definition) -> str | None:
    """The arguments with which a Definition's reference makes its Model; None if `make_definition` did not make it."""
    nodes = ast.walk(syntax_trees.parse(definition.reference)) if _MAKER in definition.reference else ()
    makers = [each for each in nodes if isinstance(each, ast.FunctionDef) and each.name == _MAKER]
    calls = [each for maker in makers for each in ast.walk(maker) if isinstance(each, ast.Call)]
    made = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Model"]
    return ast.unparse(made[0]).removeprefix("Model(").removesuffix(")") if made else None
