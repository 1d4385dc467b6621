"""A usual mistake of kernels for an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Mistake:
    """A usual wrong formula of an output, for some rows and columns of a call."""

    sentence: str
    """The mistake and its fix; the same in every call."""
    parts: int
    """The number of mistakes that the formula combines."""
    compute: Callable[[], torch.Tensor]
    """Computes the output's elements, [rows, columns]."""
    slack: float = 0.0
    """What the elements of rows may be off by, as a share of them, because a compiler chooses the order of a sum."""
