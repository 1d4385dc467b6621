"""The inputs and outputs of a Definition by name, which are what the source of a kernel is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class Signature:
    """A Definition's inputs and outputs, which are the parameters of its kernels."""

    definition: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[str, ...]]
    """The axes of each input and output that is a tensor; the others are numbers."""
    constants: tuple[int, ...]
    """The sizes of the constant axes."""

    def is_number(self, name: str) -> bool:
        """Whether an input is a number."""
        return name not in self.shapes


def make_signature(definition: Definition) -> Signature:
    """Make the signature of a Definition."""
    tensors = {**definition.inputs, **definition.outputs}
    return Signature(
        definition.name,
        tuple(definition.inputs),
        tuple(definition.outputs),
        {name: tuple(spec.shape) for name, spec in tensors.items() if spec.shape is not None},
        tuple(definition.const_axes.values()),
    )
