"""Correct rounding from float64, and the errors that float32 may make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
