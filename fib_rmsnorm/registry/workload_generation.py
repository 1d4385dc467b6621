"""Generate Workloads: equal requests give equal uuids, and therefore equal tensors, on every machine."""

import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_float
from itertools import product

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import default_scalars
from fib_rmsnorm.registry.selection import row_axis
from fib_rmsnorm.schema import Definition, DType, RandomInput, SafetensorsInput, ScalarInput, TensorSpec, Workload

DEFAULT_BATCH_SIZES = (1, 8, 32, 128, 512)
LARGE_BATCH_SIZES = (4096, 16384, 65536)
"""Sizes that a GPU's memory bounds; a CPU takes seconds for a call."""
MOST_ROWS = 2**31 - 1
"""The most blocks of a CUDA grid: kernels may use one block per row."""

_NOT_IN_TORCH = DType.FLOAT4_E2M1  # it has pairs of them alone, float4_e2m1fn_x2
# Any fixed value works; changing it would rename every generated Workload.
_NAMESPACE = uuid.UUID("6f2c1f0e-2b43-5c0c-9a66-3d8a3f1f4c11")


def generate_workloads(
    definition: Definition,
    batch_sizes: Iterable[int] | None = None,
    axes: Mapping[str, Iterable[int]] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> list[Workload]:
    """Generate Workloads with random tensors and explicit scalars: one for each combination of sizes.

    Without an explicit eps, upstream would draw a random and possibly negative one.

    Args:
        definition: The Definition to generate for.
        batch_sizes: Sizes of the row axis, which is the first variable one; default: 1 to 512.
        axes: Sizes of variable axes by name; those beyond the row axis have no default.
        scalars: Values of scalar inputs by name; default: the operator's.

    Raises InputError if a size is not positive or above 2^31 - 1, if a name is not a variable axis or a scalar input,
    if a scalar does not fit its dtype or its operator, or if one of them has neither a value nor a default.
    """
    sizes = _choose_sizes(definition, batch_sizes, axes or {})
    values = _choose_scalars(definition, scalars or {})
    return [
        _make_workload(definition, dict(zip(sizes, each, strict=True)), values) for each in product(*sizes.values())
    ]


def list_undetermined(definition: Definition) -> list[str]:
    """The variable axes and scalar inputs that need a value, because they have no default."""
    scalars = default_scalars(definition)
    return definition.var_axes[1:] + [name for name in _list_scalars(definition) if name not in scalars]


def choose_workloads(
    definition: Definition, registered: Sequence[Workload], batch_sizes: Sequence[int], usual: Sequence[int] = ()
) -> list[Workload]:
    """Generate Workloads of `batch_sizes`, or of the `usual` ones if there are none.

    Without either, the registered ones, one for each set of sizes, or if there are none generated ones of the default
    sizes. Those of a Definition whose other sizes and scalars nobody knows are the registered ones of these sizes.
    Raises InputError if one is missing, if one has empty tensors, or if a dtype is not one of torch's.
    """
    specs = {**definition.inputs, **definition.outputs}
    if lacking := [f"{name} ({spec.dtype.value})" for name, spec in specs.items() if spec.dtype is _NOT_IN_TORCH]:
        raise InputError(f"{definition.name}: torch has no tensors of the dtype of {lacking[0]}, so none can be made")
    axis, undetermined = row_axis(definition), list_undetermined(definition)
    if registered and not batch_sizes and not usual:
        by_sizes: dict[tuple[int, ...], Workload] = {}
        for each in registered:
            by_sizes.setdefault(tuple(each.axes.values()), each)
        chosen = [*by_sizes.values()]
    elif not undetermined:
        chosen = generate_workloads(definition, batch_sizes or (usual or DEFAULT_BATCH_SIZES if axis else None))
    else:
        chosen = [each for each in registered if not batch_sizes or each.axes.get(axis or "") in batch_sizes]
        there = {each.axes.get(axis or "") for each in chosen}
        missing = [f" of {axis}={size}" for size in batch_sizes if size not in there]
        if missing or not chosen:
            raise InputError(
                f"{definition.name}: has no Workload{''.join(missing[:1])}; add one with a value of"
                f" {', '.join(undetermined)}, by: fib-rmsnorm workload --definition {definition.name}"
            )
    for each in chosen:
        refuse_empty(definition, each)
    return chosen


def _choose_sizes(
    definition: Definition, batch_sizes: Iterable[int] | None, axes: Mapping[str, Iterable[int]]
) -> dict[str, list[int]]:
    """The sizes of each variable axis, in the Definition's order."""
    if unknown := [name for name in axes if name not in definition.var_axes]:
        known = ", ".join(definition.var_axes) or "none"
        raise InputError(f"{definition.name}: {unknown[0]!r} is not a variable axis (available: {known})")
    rows = row_axis(definition)
    if rows is None and batch_sizes is not None:
        raise InputError(f"{definition.name}: all axes are constant, so its only Workload has no batch size")
    if rows in axes and batch_sizes is not None:
        raise InputError(f"{definition.name}: its batch size is {rows!r}, which has sizes already")
    given = {**axes} if batch_sizes is None or rows is None else {**axes, rows: batch_sizes}
    chosen = {}
    for name in definition.var_axes:
        sizes = given.get(name, DEFAULT_BATCH_SIZES if name == rows else ())
        chosen[name] = [*dict.fromkeys(sizes)]
        what = "batch sizes" if name == rows else f"sizes of {name}"
        for size in chosen[name]:
            if not 0 < size <= MOST_ROWS:
                raise InputError(f"{what} must be {'positive' if size <= 0 else f'at most {MOST_ROWS}'}, not {size}")
        if not chosen[name]:
            raise InputError(
                f"{definition.name}: its axis {name!r} needs a size: fib-rmsnorm workload --definition"
                f" {definition.name} --axes {name}=SIZES"
            )
    return chosen


def _list_scalars(definition: Definition) -> list[str]:
    return [name for name, spec in definition.inputs.items() if spec.shape is None]


def _choose_scalars(definition: Definition, given: Mapping[str, float]) -> dict[str, float]:
    """The value of each scalar input."""
    names = _list_scalars(definition)
    if unknown := [name for name in given if name not in names]:
        known = ", ".join(names) or "none"
        raise InputError(f"{definition.name}: {unknown[0]!r} is not a scalar input (available: {known})")
    defaults = default_scalars(definition)
    chosen = {}
    for name in names:
        usual = defaults.get(name)
        value = given.get(name, usual.value if usual else None)
        if value is None:
            raise InputError(
                f"{definition.name}: its scalar input {name!r} needs a value: fib-rmsnorm workload --definition"
                f" {definition.name} --set {name}=VALUE"
            )
        chosen[name] = _as_scalar(name, definition.inputs[name], value)
        if usual is not None and chosen[name] < usual.least:
            raise InputError(f"{name} must be at least {usual.least:g}, not {chosen[name]:g}")
    return chosen


def _as_scalar(name: str, spec: TensorSpec, value: float) -> float:
    """Check that a value fits the dtype of a scalar input."""
    dtype = spec.dtype.value
    if dtype == "bool":
        fits, what = isinstance(value, bool), "true or false"
    elif dtype.startswith(("int", "uint")):
        fits, what = isinstance(value, int) and not isinstance(value, bool), "an integer"
    else:
        as_float = float(value) if dtype == "float64" else c_float(value).value
        fits = not isinstance(value, bool) and math.isfinite(as_float) and (as_float == 0) == (value == 0)
        what, value = f"0 or a finite {dtype}", value if isinstance(value, bool) else float(value)
    if not fits:
        raise InputError(f"{name} must be {what}, not {value}")
    return value


def _make_workload(definition: Definition, axes: dict[str, int], scalars: Mapping[str, float]) -> Workload:
    inputs: dict[str, RandomInput | SafetensorsInput | ScalarInput] = {
        name: ScalarInput(value=scalars[name]) if name in scalars else RandomInput() for name in definition.inputs
    }
    request = {
        "definition": definition.name,
        "axes": axes,
        "inputs": {name: value.model_dump() for name, value in inputs.items()},
    }
    identity = uuid.uuid5(_NAMESPACE, json.dumps(request, sort_keys=True))
    return Workload(axes=axes, inputs=inputs, uuid=str(identity))


def find_empty_axis(definition: Definition, workload: Workload | None = None) -> str | None:
    """The first axis of a tensor whose size is 0, if there is one; without a Workload, among the constant axes.

    The schema allows it, as upstream's does, but a kernel has nothing to do then, and nothing can be measured.
    """
    sizes = {**definition.const_axes, **(workload.axes if workload else {})}
    shapes = [spec.shape or [] for spec in (*definition.inputs.values(), *definition.outputs.values())]
    return next((axis for shape in shapes for axis in shape if sizes.get(axis) == 0), None)


def refuse_empty(definition: Definition, workload: Workload | None = None) -> None:
    """Raise InputError if a Definition, or a Workload of it, has an axis of 0."""
    if axis := find_empty_axis(definition, workload):
        which = f"Workload {workload.uuid} of " if workload and axis in workload.axes else ""
        raise InputError(f"{which}{definition.name}: axis {axis!r} is 0; it must be positive")


def bytes_moved(definition: Definition, workload: Workload) -> int:
    """Bytes of all inputs and outputs, each counted once: the minimum that any kernel must move."""
    return sum(tensor_bytes(definition, workload).values())


def tensor_bytes(definition: Definition, workload: Workload) -> dict[str, int]:
    """Bytes of each input and output tensor of a Workload, without scalars.

    Raises InputError for a Workload that lacks the size of an axis.
    """
    sizes = {**definition.const_axes, **workload.axes}
    result = {}
    for name, spec in {**definition.inputs, **definition.outputs}.items():
        if spec.shape is None:
            continue
        if missing := [axis for axis in spec.shape if axis not in sizes]:
            raise InputError(f"Workload {workload.uuid} of {definition.name}: axis {missing[0]!r} is missing")
        digits = "".join(each for each in spec.dtype.value.partition("_")[0] if each.isdigit())  # none of a bool
        result[name] = math.prod(sizes[axis] for axis in spec.shape) * int(digits or 8) // 8
    return result
