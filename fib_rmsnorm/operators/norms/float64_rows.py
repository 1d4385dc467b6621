"""Rows of a call in float64, block by block; correct rounding from it, and the errors that float32 may make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.operator import ExactOutput

if TYPE_CHECKING:
    import torch

FLOAT32_EPS = 2.0**-23
"""The machine epsilon of float32, in which right kernels compute."""


def round_once(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round float64 to a narrower dtype in one step.

    torch goes through float32, so a number that float32 rounds to a tie of float16 is rounded twice. Rounding to odd
    in the first step prevents that (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums").
    """
    import torch

    if dtype.itemsize >= torch.float32.itemsize:
        return values.to(dtype)
    single = values.to(torch.float32)
    inexact = (single.to(torch.float64) != values) & single.isfinite()
    away = inexact & (single.abs().to(torch.float64) > values.abs())
    bits = single.view(torch.int32) - away.to(torch.int32)  # one step toward zero
    return torch.where(inexact, bits | 1, bits).view(torch.float32).to(dtype)


def float32_statistic_error(hidden: int) -> float:
    """The relative error that the statistic of a row may have in float32.

    The rounding errors of a sum of squares grow as the root of their number, and stay below this even in a plain loop.
    """
    return FLOAT32_EPS * (4 + math.sqrt(hidden))


_BLOCK_ELEMENTS = 1 << 24
_BY_ELEMENT = ("values", "bound", "alternative")


@dataclass(frozen=True)
class RowBlock:
    """Some consecutive rows of a call."""

    rows: slice
    inputs: Mapping[str, Any]
    """The inputs by their parts: rows of those that have rows, all of the others. Tensors are float64."""


def list_blocks(x: torch.Tensor) -> Iterator[slice]:
    """The blocks of rows of x, [rows, hidden]; at least one."""
    step = max(1, _BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, max(1, x.shape[0]), step):
        yield slice(start, min(start + step, x.shape[0]))


def split_rows(inputs: Mapping[str, Any]) -> Iterator[RowBlock]:
    """Split all inputs that have as many axes as x, [rows, hidden], into blocks of rows; at least one."""
    import torch

    x = inputs["x"]
    dims = {part: value.dim() if hasattr(value, "dim") else 0 for part, value in inputs.items()}
    wide = {part: inputs[part].to(torch.float64) for part, dim in dims.items() if dim == 1}
    others = {part: value for part, value in inputs.items() if dims[part] != x.dim()}
    for rows in list_blocks(x):
        cut = {part: inputs[part][rows].to(torch.float64) for part, dim in dims.items() if dim == x.dim()}
        yield RowBlock(rows, {**others, **wide, **cut})


def compute_by_blocks(
    inputs: Mapping[str, Any], compute: Callable[[Mapping[str, Any]], Mapping[str, ExactOutput]]
) -> dict[str, ExactOutput]:
    """The outputs of a call, of which `compute` makes some rows at a time, of inputs in float64."""
    found: dict[str, ExactOutput] = {}
    rows = len(inputs["x"])

    def make_rows(like: torch.Tensor | None) -> torch.Tensor | None:
        return None if like is None else like.new_empty((rows, *like.shape[1:]))

    for block in split_rows(inputs):
        for part, each in compute(block.inputs).items():
            if part not in found:
                made = {name: make_rows(getattr(each, name)) for name in _BY_ELEMENT}
                found[part] = replace(each, **made)  # type: ignore[arg-type]
            for name in _BY_ELEMENT:
                if (whole := getattr(found[part], name)) is not None:
                    whole[block.rows] = getattr(each, name)
    return found
