"""Generate a Workload's inputs from its uuid: the same on every machine of the same kind."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.tensors.case_numbers import make_awkward_workload, make_few_rows
from fib_rmsnorm.operators import Recognition, derive_inputs
from fib_rmsnorm.registry.files.tensor_files import find_tensor_file
from fib_rmsnorm.schema import CaseKind, Definition, RandomInput, SafetensorsInput, ScalarInput, Workload


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype that a Definition names. Raises InputError if the installed torch lacks it."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"torch {torch.__version__} has no dtype {name!r}; install a newer version")
    return dtype


def shape_of(definition: Definition, workload: Workload, name: str) -> list[int] | None:
    """The concrete shape of an input or output; None for a scalar."""
    spec = definition.inputs.get(name) or definition.outputs[name]
    if spec.shape is None:
        return None
    sizes = {**definition.const_axes, **workload.axes}
    return [sizes[axis] for axis in spec.shape]


@dataclass(frozen=True)
class DeviceWorkload:
    """A Workload of a Definition, and where its tensors are."""

    definition: Definition
    workload: Workload
    device: str
    dataset: Path | None = None
    """The folder to which the paths of safetensors inputs are relative."""


def generate_inputs(wanted: DeviceWorkload) -> dict[str, Any]:
    """Make a Workload's inputs in the Definition's order. Random ones are N(0, 1), seeded by uuid and name.

    Those that an operator derives from others, such as the rstd that belongs to an x, fit them.

    Raises InputError for a scalar without a value, or a safetensors file outside the dataset.
    """
    inputs = {name: generate_alone(wanted, name) for name in wanted.definition.inputs}
    made = derive_inputs(wanted.definition, inputs)
    return {**inputs, **{name: value for name, value in made.items() if is_random(wanted.workload, name)}}


def is_random(workload: Workload, name: str) -> bool:
    """Whether an input's values are left to this module."""
    return isinstance(workload.inputs.get(name, RandomInput()), RandomInput)


def generate_alone(wanted: DeviceWorkload, name: str) -> Any:
    """Make one input that does not have to fit others, as `generate_inputs` does."""
    workload, device = wanted.workload, wanted.device
    given = workload.inputs.get(name)
    if isinstance(given, ScalarInput):
        return given.value
    if isinstance(given, SafetensorsInput):
        return _load_tensor(given, wanted.dataset).to(device)
    shape = shape_of(wanted.definition, workload, name)
    if shape is None:
        raise InputError(f"workload {workload.uuid}: its scalar input {name!r} has no value")
    return _random_tensor(shape, torch_dtype(wanted.definition.inputs[name].dtype.value), device, workload.uuid + name)


def _random_tensor(shape: list[int], dtype: torch.dtype, device: str, seed: str) -> torch.Tensor:
    generator = torch.Generator(device)
    generator.manual_seed(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little") >> 1)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator, device=device, dtype=torch.uint8).to(dtype)
    if not dtype.is_floating_point:
        bound = min(1024, torch.iinfo(dtype).max)
        return torch.randint(-bound, bound, shape, generator=generator, device=device, dtype=dtype)
    if dtype.itemsize == 1:  # float8 has no normal generator, and little range
        return torch.randn(shape, generator=generator, device=device).clamp_(-2, 2).to(dtype)
    return torch.randn(shape, generator=generator, device=device, dtype=dtype)


def _load_tensor(given: SafetensorsInput, dataset: Path | None) -> torch.Tensor:
    from safetensors import safe_open

    if dataset is None:
        raise InputError(f"{given.path}: cannot load a safetensors input without the dataset's folder")
    path = find_tensor_file(given, dataset)
    with safe_open(path, framework="pt") as file:
        if given.tensor_key not in file.keys():  # noqa: SIM118 - not a dict
            raise InputError(f"{path}: has no tensor {given.tensor_key!r}")
        tensor: torch.Tensor = file.get_tensor(given.tensor_key)
        return tensor


@dataclass(frozen=True)
class Case:
    """One set of inputs that a solution is judged on."""

    name: str
    kind: CaseKind
    workload: Workload
    """The Workload whose axes the inputs and outputs have: the judged one, or one of a similar, awkward size."""
    inputs: dict[str, Any]
    row_kinds: tuple[str, ...] = ()
    explains: bool = True
    """Whether a wrong output can show which usual mistake a kernel makes."""
    recurring: int = 0
    """How many rows of the Workload's own inputs recur here: the last of both."""


def make_case(judged: DeviceWorkload, recognition: Recognition | None, case: int, *, few_rows: bool = False) -> Case:
    """Make case 0 (the Workload's own inputs), a hard one, or the last, which has an awkward size.

    With `few_rows`, all but case 0 have few.
    """
    definition, workload = judged.definition, judged.workload
    if recognition is None or case == 0:
        return Case("workload", "workload", workload, generate_inputs(judged))
    if few_rows:
        workload = make_few_rows(definition, recognition, workload)
    if case > recognition.count_hard_cases({**definition.const_axes, **workload.axes}):
        awkward = make_awkward_workload(definition, recognition, workload) or workload
        return _make_awkward_case(judged, awkward, recognition.row_axis)
    inputs = generate_inputs(replace(judged, workload=workload))
    hard = recognition.make_hard_case(inputs, case - 1, workload.uuid)
    return Case(hard.name, "hard", workload, hard.inputs, hard.row_kinds, hard.explains)


def _make_awkward_case(judged: DeviceWorkload, awkward: Workload, axis: str | None) -> Case:
    """Make the case of an awkward size: of the last rows of the Workload's own inputs, after others if it has more.

    So the same row is called in two batches, at two places, and what rows share is the same.
    """
    sizes, own_sizes = awkward.axes, judged.workload.axes
    name = ", ".join(f"{each}={size}" for each, size in sizes.items())
    if axis is None or {**sizes, axis: 0} != {**own_sizes, axis: 0}:
        return Case(name, "awkward", awkward, generate_inputs(replace(judged, workload=awkward)))
    more = max(0, sizes[axis] - own_sizes[axis])
    recurring = sizes[axis] - more
    own = generate_inputs(judged)
    others = generate_inputs(replace(judged, workload=awkward)) if more else own
    inputs = dict(own)
    for part, spec in judged.definition.inputs.items():
        if axis in (shape := spec.shape or []):
            dim = shape.index(axis)
            ends = others[part].narrow(dim, 0, more), own[part].narrow(dim, own_sizes[axis] - recurring, recurring)
            inputs[part] = torch.cat(ends, dim)
    return Case(name, "awkward", awkward, inputs, recurring=recurring)
