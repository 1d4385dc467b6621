"""The interface of an operator: what evaluations need beyond a Definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition


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
    """Knowledge of one operator, which recognises Definitions by structure and not by name alone."""

    name: str

    def recognises(self, definition: Definition) -> bool:
        """Whether `definition` has this operator's inputs, outputs and axes."""
        ...

    def define_by_name(self, name: str) -> Definition | None:
        """Make this operator's Definition of this name; None if it gives no Definition this name."""
        ...

    def count_hard_cases(self, definition: Definition, axes: dict[str, int]) -> int:
        """The number of hard cases for a Workload with these axes."""
        ...

    def make_hard_case(self, definition: Definition, inputs: dict[str, Any], index: int) -> HardCase:
        """Make hard case `index` from the Workload's generated inputs, without changing them."""
        ...

    def choose_awkward_axes(self, axes: dict[str, int]) -> dict[str, int]:
        """Choose axes near a Workload's that are not multiples of a tile; benched axes are usually powers of two."""
        ...

    def count_cost(self, definition: Definition, axes: dict[str, int]) -> Cost:
        """Count the operations of the formula as written, for a Workload with these axes."""
        ...

    def compute_exact(self, inputs: dict[str, Any]) -> Sequence[torch.Tensor]:
        """Compute the outputs in float64 and round them once to their dtypes."""
        ...
