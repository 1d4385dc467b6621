"""Describe a Model in KernelBench's form, beside its untrusted code: on meta tensors, which take no memory."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_OTHER_SIZES = (5, 7)
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

    def list_operations(self, tensor: torch.Tensor) -> list[str]:
        return sorted(self.made[id(tensor)][1]) if id(tensor) in self.made else []


def describe_model(
    make: Callable[..., Any], get_inputs: Callable[[], Any], get_init_inputs: Callable[[], Any], size: int
) -> torch.Tensor:
    """The JSON that `registry.sources.model_file` reads, as int8 [size], with spaces after it."""
    with torch.device("meta"), torch.no_grad():
        with _Origins() as origins:
            inputs = [*get_inputs()]
        arguments = get_init_inputs()
        model = make(*arguments)
        resized, outputs = _find_rows(model, inputs)
        dtypes = [str(each.dtype) for each in _call(model, inputs)]
    found = {
        "names": [*inspect.signature(model.forward).parameters],
        "arguments": ", ".join(map(repr, arguments)),
        "rows": inputs[resized[0]].shape[0] if resized else None,
        "inputs": [
            {
                "shape": [None, *each.shape[1:]] if number in resized else [*each.shape],
                "dtype": str(each.dtype),
                "origin": origins.list_operations(each),
            }
            if isinstance(each, torch.Tensor)
            else {"value": each, "dtype": type(each).__name__}
            for number, each in enumerate(inputs)
        ],
        "outputs": [{"shape": shape, "dtype": dtype} for shape, dtype in zip(outputs, dtypes, strict=True)],
    }
    text = json.dumps(found).encode().ljust(size)
    return torch.frombuffer(bytearray(text), dtype=torch.int8)


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
