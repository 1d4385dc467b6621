"""A usual mistake of kernels for an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Mistake:
    """A usual wrong formula, for some rows and columns of a call."""

    sentence: str
    """The mistake and its fix; the same in every call."""
    parts: int
    """The number of mistakes that the formula combines."""
    compute: Callable[[], Sequence[torch.Tensor]]
    """Computes the elements of each output."""
