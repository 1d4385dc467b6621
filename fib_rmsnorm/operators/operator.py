"""The interface of an operator: what evaluations need beyond a Definition.

An operator never sees the names of a Definition's tensors and axes: it names them by the parts that they play, such as
`x`, `weight` and `rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fib_rmsnorm.operators.mistake import Mistake

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class Parts:
    """The parts that a Definition's tensors and axes can play in an operator, by their shapes and dtypes."""

    tensors: dict[str, str]
    """The name of the input or output that plays each part; a part that is a constant is missing."""
    axes: dict[str, str]


@dataclass(frozen=True)
class HardCase:
    """A set of inputs that is made to break wrong kernels.

    `row_kinds[r % len(row_kinds)]` says why row r of the outputs is hard, so that a failure message can name it.
    """

    name: str
    inputs: dict[str, Any]
    row_kinds: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """The number of floating-point operations of a Workload."""

    flops: int
    how: str
    """A description of how they are counted."""


class Operator(Protocol):
    """Knowledge of one operator. Inputs, sizes and constants are named by their parts."""

    name: str
    arguments: tuple[str, ...]
    """The parts of the inputs of its own reference, in order."""
    reference: str
    """The source of its own reference."""
    probe_sizes: ClassVar[Mapping[str, int]]
    """The sizes of variable axes for which a reference is probed."""
    probe_scalars: ClassVar[Mapping[str, float]]
    """The values of scalar inputs with which a reference is probed."""

    def find_parts(self, definition: Definition) -> Parts | None:
        """Match `definition` by its shapes and dtypes alone; None if they do not fit this operator."""
        ...

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values for the parts that are constants, given the numbers that a reference's source contains."""
        ...

    def define_by_name(self, name: str) -> Definition | None:
        """Make this operator's Definition of this name; None if it gives no Definition this name."""
        ...

    def find_kernel(self, dtypes: Mapping[str, str], language: str) -> Path | None:
        """Find a plain kernel to start from, which takes `arguments` and the outputs; None if none has these dtypes.

        `language` is one of `fib_rmsnorm.languages` or `cutedsl`.
        """
        ...

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of hard cases for a Workload of these sizes."""
        ...

    def make_hard_case(self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int) -> HardCase:
        """Make hard case `index` from the Workload's generated inputs, without changing them or the constants."""
        ...

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose sizes of variable axes near `sizes`, but without the factors that benched sizes and tiles share."""
        ...

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of the formula as written, for a Workload of these sizes."""
        ...

    def compute_exact(self, inputs: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        """Compute the outputs from inputs and constants in float64 and round them once to their dtypes."""
        ...

    def compute_alternatives(self, inputs: Mapping[str, Any]) -> Sequence[torch.Tensor] | None:
        """Outputs that are as right as the exact ones, element by element, where the formula rounds before its end.

        None if it does not.
        """
        ...

    def mistakes(self, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The usual wrong formulas, always in the same order, to be compared with a wrong output.

        They compute the elements of the outputs in the rows and columns with these numbers.
        """
        ...
