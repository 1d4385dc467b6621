"""Rows of a call in float64, block by block; correct rounding from it, and the errors that float32 may make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.operator import ExactOutput, Inputs

FLOAT32_EPS = 2.0**-23
"""The machine epsilon of float32, in which right kernels compute."""


def round_once(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round float64 to a narrower dtype in one step.

    torch goes through float32, so a number that float32 rounds to a tie of float16 is rounded twice. Rounding to odd
    in the first step prevents that (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums").
    """
    if dtype.itemsize >= torch.float32.itemsize:
        return values.to(dtype)
    single = values.to(torch.float32)
    inexact = (single.to(torch.float64) != values) & single.isfinite()
    away = inexact & (single.abs().to(torch.float64) > values.abs())
    bits = single.view(torch.int32) - away.to(torch.int32)  # one step toward zero
    return torch.where(inexact, bits | 1, bits).view(torch.float32).to(dtype)


Rounding = Callable[["torch.Tensor"], "torch.Tensor"]


def round_to(dtype: torch.dtype) -> Rounding:
    """A function that rounds float64 to what a narrower dtype can hold, and returns float64."""
    return lambda values: round_once(values, dtype).to(torch.float64)


def narrow_dtypes(dtype: torch.dtype) -> list[torch.dtype]:
    """The dtypes narrower than float32 in which a kernel for x of this dtype may compute by mistake."""
    return [dtype] if dtype.itemsize == 2 else [torch.float16, torch.bfloat16]


def find_rstd(x: torch.Tensor, eps: float) -> torch.Tensor:
    """The reciprocal root of the mean square of each row, [rows, 1]."""
    return torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)


APPLY_WEIGHT: Mapping[str, Callable[..., torch.Tensor]] = {
    "torch": lambda normalized, weight, _: normalized * weight,
    "llama": lambda normalized, weight, dtype: round_once(normalized, dtype).double() * weight,
    "gemma": lambda normalized, weight, _: normalized * (1 + weight),
    "none": lambda normalized, *_: normalized,
}
"""The conventions of applying a weight to rows of x * rstd, all in float64; the dtype is that of x in the call."""


def float32_statistic_error(hidden: int) -> float:
    """The relative error that the statistic of a row may have in float32.

    The rounding errors of a sum of squares grow as the root of their number, and stay below this even in a plain loop.
    """
    return FLOAT32_EPS * (4 + math.sqrt(hidden))


_BLOCK_ELEMENTS = 1 << 24
_BY_ELEMENT = ("values", "bound", "alternative")


def list_blocks(x: torch.Tensor) -> Iterator[slice]:
    """The blocks of rows of x, [rows, hidden]; at least one."""
    step = max(1, _BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, max(1, x.shape[0]), step):
        yield slice(start, min(start + step, x.shape[0]))


def compute_by_blocks(inputs: Inputs, compute: Callable[[Inputs], Mapping[str, ExactOutput]]) -> dict[str, ExactOutput]:
    """The outputs of a call, of which `compute` makes some rows at a time.

    It gets these rows of all inputs that have as many axes as x, [rows, hidden], and the others; tensors in float64.
    """
    found: dict[str, ExactOutput] = {}
    x = inputs["x"]
    tensors = {part: value for part, value in inputs.items() if hasattr(value, "dim")}
    given = {**inputs, **{part: value.double() for part, value in tensors.items() if value.dim() < x.dim()}}

    for rows in list_blocks(x):
        cut = {part: value[rows].double() for part, value in tensors.items() if value.dim() == x.dim()}
        for part, each in compute({**given, **cut}).items():
            if part not in found:
                some = {name: like for name in _BY_ELEMENT if (like := getattr(each, name)) is not None}
                made = {name: like.new_empty((len(x), *like.shape[1:])) for name, like in some.items()}
                found[part] = replace(each, **made)
            for name in _BY_ELEMENT:
                if (whole := getattr(found[part], name)) is not None:
                    whole[rows] = getattr(each, name)
    return found
