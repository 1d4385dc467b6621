"""Rows of a call in float64, block by block; correct rounding from it, and the errors that float32 may make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True)
class RowBlock:
    """Some consecutive rows of a call."""

    rows: slice
    inputs: Mapping[str, Any]
    """The inputs by their parts: rows of those that have rows, all of the others. Tensors are float64."""


def split_rows(inputs: Mapping[str, Any]) -> Iterator[RowBlock]:
    """Split all inputs that have as many axes as x, [rows, hidden], into blocks of rows; at least one."""
    import torch

    x = inputs["x"]
    wide = {part: value.to(torch.float64) for part, value in inputs.items() if _dim(value) == 1}
    others = {part: value for part, value in inputs.items() if _dim(value) != x.dim()}
    step = max(1, _BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, max(1, x.shape[0]), step):
        rows = slice(start, min(start + step, x.shape[0]))
        cut = {part: value[rows].to(torch.float64) for part, value in inputs.items() if _dim(value) == x.dim()}
        yield RowBlock(rows, {**others, **wide, **cut})


def join_rows(blocks: Iterable[tuple[slice, Mapping[str, ExactOutput]]], rows: int) -> dict[str, ExactOutput]:
    """Join the outputs of blocks that together have this number of rows, one block at a time."""
    found: dict[str, ExactOutput] = {}
    for place, outputs in blocks:
        for part, each in outputs.items():
            if part not in found:
                bound = None if each.bound is None else _make_rows(each.bound, rows)
                found[part] = replace(each, values=_make_rows(each.values, rows), bound=bound)
            found[part].values[place].copy_(each.values)
            if each.bound is not None and (bound := found[part].bound) is not None:
                bound[place].copy_(each.bound)
    return found


def _make_rows(like: torch.Tensor, rows: int) -> torch.Tensor:
    return like.new_empty((rows, *like.shape[1:]))


def _dim(value: Any) -> int:
    return value.dim() if hasattr(value, "dim") else 0
