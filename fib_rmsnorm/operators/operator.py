"""The interface of an operator: what judging needs beyond a Definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class HardCase:
    """One set of inputs made to break wrong kernels.

    `row_kinds[r % len(row_kinds)]` says what is hard about row r of the outputs, so a failure can be named.
    """

    name: str
    inputs: dict[str, Any]
    row_kinds: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a Workload."""

    flops: int
    how: str
    """How they are counted, in words."""


class Operator(Protocol):
    """Knowledge of one operator, found by structure and not by a Definition's name alone."""

    name: str

    def recognises(self, definition: Definition) -> bool:
        """Whether `definition` has this operator's inputs, outputs and axes."""
        ...

    def define_by_name(self, name: str) -> Definition | None:
        """The Definition of this operator that has this name; None if none has."""
        ...

    def count_hard_cases(self, definition: Definition, axes: dict[str, int]) -> int:
        """How many hard cases `make_hard_case` makes for a workload with these axes."""
        ...

    def make_hard_case(self, definition: Definition, inputs: dict[str, Any], index: int) -> HardCase:
        """Make hard case `index` from the workload's own generated inputs, which stay unchanged."""
        ...

    def choose_awkward_axes(self, axes: dict[str, int]) -> dict[str, int]:
        """Axes near a workload's that no tile fits: it is those of powers of two that are benched."""
        ...

    def count_cost(self, definition: Definition, axes: dict[str, int]) -> Cost:
        """Count the operations of the formula as it is written, for a workload with these axes."""
        ...

    def compute_exact(self, inputs: dict[str, Any]) -> Sequence[torch.Tensor]:
        """Compute the outputs in float64 and round them once to their dtypes."""
        ...
