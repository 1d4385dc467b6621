"""Describe a Model in KernelBench's form, beside its untrusted code: on meta tensors, which take no memory."""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_OTHER_SIZES = (5, 7)
_SCALARS = {float: "float32", int: "int64", bool: "bool"}
_RANDOM = {"rand", "randn", "mul", "add", "sub", "detach"}
"""Operations after which values are still any: a right kernel is right on those of N(0, 1) too."""
_Shapes = list[list[int | None]]


class _Origins(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operations that made each tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, tuple[Any, set[str]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        used = (self.made[id(each)][1] for each in args if id(each) in self.made)
        self.made[id(found)] = found, {func.overloadpacket.__name__}.union(*used)
        return found

    def require_random(self, name: str, tensor: torch.Tensor) -> None:
        """Raise ValueError if a right kernel may be wrong on other values than the tensor's."""
        made = self.made[id(tensor)][1] if id(tensor) in self.made else {"other code"}
        if others := sorted(made - _RANDOM):
            what = f"{name} holds what {' and '.join(others)} made of it"
            raise ValueError(f"{what}; a Workload can ask for values of N(0, 1) alone")


def describe_model(
    make: Callable[..., Any], get_inputs: Callable[[], Any], get_init_inputs: Callable[[], Any], size: int
) -> torch.Tensor:
    """The JSON that `registry.sources.model_file` reads, as int8 [size], with spaces after it."""
    with torch.device("meta"), torch.no_grad():
        with _Origins() as origins:
            values = [*get_inputs()]
        arguments = get_init_inputs()
        model = make(*arguments)
        inputs = dict(zip(inspect.signature(model.forward).parameters, values, strict=False))
        resized, shapes = _find_rows(model, values)
        outputs = _call(model, values)
    for name, each in inputs.items():
        if isinstance(each, torch.Tensor) and each.dtype != torch.bool:
            origins.require_random(name, each)
    rows = "rows" if "batch" in inputs else "batch"

    def specify(each: Any, shape: Sequence[int | None] | None = None) -> dict[str, Any]:
        if shape is None:
            return {"shape": None, "dtype": _SCALARS[type(each)]}
        axes = [rows if size is None else f"d{size}" for size in shape]
        return {"shape": axes, "dtype": str(each.dtype).removeprefix("torch.")}

    names = ["out", *(f"out_{number}" for number in range(1, len(outputs)))]
    definition = {
        "inputs": {
            name: specify(each, [None, *each.shape[1:]] if number in resized else getattr(each, "shape", None))
            for number, (name, each) in enumerate(inputs.items())
        },
        "outputs": {
            name + "_" * (name in inputs): specify(*each)
            for name, each in zip(names, zip(outputs, shapes, strict=True), strict=True)
        },
    }
    specs = [*definition["inputs"].values(), *definition["outputs"].values()]
    used = dict.fromkeys(axis for spec in specs for axis in spec["shape"] or ())
    sizes = {axis: {"type": "const", "value": int(axis[1:])} for axis in sorted(used) if axis != rows}
    found = {
        "definition": {"axes": {**({rows: {"type": "var"}} if resized else {}), **sizes}, **definition},
        "arguments": ", ".join(map(repr, arguments)),
        "rows": values[resized[0]].shape[0] if resized else None,
        "values": {name: each for name, each in inputs.items() if not isinstance(each, torch.Tensor)},
    }
    return torch.frombuffer(bytearray(json.dumps(found).encode().ljust(size)), dtype=torch.int8)


def _call(model: Callable[..., Any], inputs: Sequence[Any]) -> list[torch.Tensor]:
    outputs = model(*inputs)
    return [outputs] if isinstance(outputs, torch.Tensor) else [*outputs]


def _find_rows(model: Callable[..., Any], inputs: list[Any]) -> tuple[list[int], _Shapes]:
    """The inputs whose first axis may have any size, and the outputs' shapes, with None for that size.

    First the inputs that have as many rows as the first one, then that one alone; no input if neither may.
    """
    shapes = [list(each.shape) for each in _call(model, inputs)]
    sized = [number for number, each in enumerate(inputs) if isinstance(each, torch.Tensor) and each.dim()]
    alike = [number for number in sized if inputs[number].shape[0] == inputs[sized[0]].shape[0]]
    for resized in (alike, sized[:1]):
        try:
            others = [[list(each.shape) for each in _resize(model, inputs, resized, size)] for size in _OTHER_SIZES]
        except Exception:
            continue
        found = [
            [None if tuple(sizes) == _OTHER_SIZES else own for own, *sizes in zip(shape, *other, strict=True)]
            for shape, other in zip(shapes, zip(*others, strict=True), strict=True)
        ]
        as_found = [[[size if own is None else own for own in shape] for shape in found] for size in _OTHER_SIZES]
        if resized and as_found == others:  # nothing else depends on it
            return resized, found
    return [], [[*shape] for shape in shapes]


def _resize(model: Callable[..., Any], inputs: list[Any], resized: list[int], size: int) -> list[torch.Tensor]:
    """The outputs for another size of these inputs' first axis."""
    changed = [
        each.new_empty((size, *each.shape[1:])) if number in resized else each for number, each in enumerate(inputs)
    ]
    return _call(model, changed)
