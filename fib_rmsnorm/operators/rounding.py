"""Correct rounding from float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


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
