"""Fresh inputs for every timed call, at no cost: windows that slide over a pool of random numbers.

Each window has other contents and other addresses than every other, so an output cached by pointer, by shape
or by content is a wrong output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.inputs import generate_input, shape_of
from fib_rmsnorm.schema import Definition, Workload

SHIFTS = 1024
"""How many different windows a pool has."""
_SHIFT_ELEMENTS = 64  # 64 bytes at least: every window is aligned as an allocation of its own would be


class InputPool:
    """The pools of a Workload's random inputs; other inputs stay as they are."""

    def __init__(self, definition: Definition, workload: Workload, device: str, dataset: Path | None) -> None:
        self._definition = definition
        self._workload = workload
        self._device = device
        self._dataset = dataset
        self._values = {name: self._generate(name) for name in definition.inputs}

    def _generate(self, name: str) -> Any:
        extra = SHIFTS * _SHIFT_ELEMENTS
        return generate_input(self._definition, self._workload, name, self._device, self._dataset, extra)

    def inputs(self, shift: int) -> dict[str, Any]:
        """The inputs whose windows start `shift` steps into their pools, in the Definition's order."""
        return {name: self._window(name, value, shift) for name, value in self._values.items()}

    def _window(self, name: str, value: Any, shift: int) -> Any:
        shape = shape_of(self._definition, self._workload, name)
        if not isinstance(value, torch.Tensor) or shape is None or list(value.shape) == shape:
            return value  # a scalar, or a tensor from a file
        start = shift % SHIFTS * _SHIFT_ELEMENTS
        elements = value.numel() - SHIFTS * _SHIFT_ELEMENTS
        return value[start : start + elements].view(shape)

    def changed(self) -> list[str]:
        """Names of the inputs that no longer hold what they were made with, anywhere in their pools."""
        return [
            name
            for name, value in self._values.items()
            if isinstance(value, torch.Tensor) and not same_bits(value, self._generate(name))
        ]


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are equal to the bit; a NaN equals its like."""
    return torch.equal(as_bytes(actual), as_bytes(expected))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in order, as a flat view if it is contiguous."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
