"""Generate Workloads: equal requests give equal uuids, and therefore equal tensors, on every machine."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterable, Sequence

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Definition, RandomInput, SafetensorsInput, ScalarInput, Workload

DEFAULT_BATCH_SIZES = (1, 8, 32, 128, 512, 4096, 16384, 65536)
DEFAULT_EPS = 1e-6
MOST_ROWS = 2**31 - 1
"""The most blocks of a CUDA grid: kernels may use one block per row."""

# Any fixed value works; changing it would rename every generated Workload.
_NAMESPACE = uuid.UUID("6f2c1f0e-2b43-5c0c-9a66-3d8a3f1f4c11")


def generate_workloads(
    definition: Definition, batch_sizes: Iterable[int] = DEFAULT_BATCH_SIZES, eps: float = DEFAULT_EPS
) -> list[Workload]:
    """Generate a Workload for each batch size, with random tensors and an explicit eps.

    Without an explicit eps, upstream would draw a random and possibly negative one. Raises InputError if the
    Definition has another variable axis than `batch` or another scalar input than `eps`, if a batch size is not
    positive or above 2^31 - 1, or if eps is negative, or as a float32 infinite or rounded to zero.
    """
    if definition.var_axes != ["batch"]:
        raise InputError(
            f"{definition.name}: cannot generate Workloads for variable axes {definition.var_axes}, only for `batch`"
        )
    if not (eps == 0 or 0 < _as_float32(eps) < float("inf")):
        raise InputError(f"eps must be 0 or a positive, finite float32, not {eps}")
    sizes = list(dict.fromkeys(batch_sizes))
    for size in sizes:
        if size <= 0:
            raise InputError(f"batch sizes must be positive, not {size}")
        if size > MOST_ROWS:
            raise InputError(f"batch sizes must be at most {MOST_ROWS}, not {size}")
    return [_make_workload(definition, size, eps) for size in sizes]


def _as_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf")


def _make_workload(definition: Definition, batch: int, eps: float) -> Workload:
    inputs: dict[str, RandomInput | SafetensorsInput | ScalarInput] = {}
    for name, spec in definition.inputs.items():
        if spec.shape is not None:
            inputs[name] = RandomInput()
        elif name == "eps":
            inputs[name] = ScalarInput(value=eps)
        else:
            raise InputError(f"{definition.name}: cannot generate a value for its scalar input {name!r}")
    request = {
        "definition": definition.name,
        "axes": {"batch": batch},
        "inputs": {name: value.model_dump() for name, value in inputs.items()},
    }
    identity = uuid.uuid5(_NAMESPACE, json.dumps(request, sort_keys=True))
    return Workload(axes={"batch": batch}, inputs=inputs, uuid=str(identity))


def generating_command(definition: Definition, workloads: Sequence[Workload]) -> str | None:
    """The command that adds exactly these Workloads; None if no single command does."""
    given = workloads[0].inputs.get("eps")
    eps = given.value if isinstance(given, ScalarInput) and isinstance(given.value, float) else DEFAULT_EPS
    sizes = [workload.axes.get("batch", 0) for workload in workloads]
    try:
        if generate_workloads(definition, sizes, eps) != list(workloads):
            return None
    except InputError:
        return None
    words = ["fib-rmsnorm", "workload", "--definition", definition.name, "--batch-sizes", ",".join(map(str, sizes))]
    return " ".join([*words, *([] if eps == DEFAULT_EPS else ["--eps", str(eps)])])


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
        elements = 1
        for axis in spec.shape:
            if axis not in sizes:
                raise InputError(f"Workload {workload.uuid} of {definition.name}: axis {axis!r} is missing")
            elements *= sizes[axis]
        result[name] = elements * _bits(spec.dtype.value) // 8
    return result


def _bits(dtype: str) -> int:
    if dtype == "bool":
        return 8
    return int("".join(c for c in dtype.partition("_")[0] if c.isdigit()))
