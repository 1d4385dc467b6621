"""Go through the rows of a call's tensors in blocks, in float64.

A tensor of a large batch in float64, and what is computed of it, would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_BLOCK_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class RowBlock:
    """Some consecutive rows of a call."""

    rows: slice
    inputs: Mapping[str, Any]
    """The inputs by their parts: rows of those that have rows, all of the others. Tensors are float64."""


def split_rows(inputs: Mapping[str, Any]) -> Iterator[RowBlock]:
    """Split all inputs that have as many axes as x, [rows, hidden], into blocks of rows."""
    import torch

    x = inputs["x"]
    wide = {part: value.to(torch.float64) for part, value in inputs.items() if _dim(value) == 1}
    others = {part: value for part, value in inputs.items() if _dim(value) != x.dim()}
    step = max(1, _BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, x.shape[0], step):
        rows = slice(start, min(start + step, x.shape[0]))
        cut = {part: value[rows].to(torch.float64) for part, value in inputs.items() if _dim(value) == x.dim()}
        yield RowBlock(rows, {**others, **wide, **cut})


def _dim(value: Any) -> int:
    return value.dim() if hasattr(value, "dim") else 0
