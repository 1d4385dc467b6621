"""The norms of each convention by their formulas in float64, and what right float32 code may make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from fib_rmsnorm.functional.norms import IS_RMS_NORM_AUTOCAST, default_eps
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error

Convention = Literal["torch", "llama", "gemma", "layer_norm"]
"""The first three are RMSNorm's."""
RMSNORM_CONVENTIONS: tuple[Convention, ...] = tuple(each for each in get_args(Convention) if each != "layer_norm")
_AUTOCAST: tuple[Convention, ...] = ("torch", "layer_norm") if IS_RMS_NORM_AUTOCAST else ("layer_norm",)


@dataclass(frozen=True)
class NormFormula:
    """A norm over the last axis.

    "torch" and "layer_norm" are rounded once, "gemma" too, with the weight 1 + weight; "llama" rounds x * rstd to the
    dtype of x before the weight.
    """

    convention: Convention
    eps: float | None
    """None is torch's default for the dtype of x."""

    def cast(self, x: torch.Tensor, *, autocast: bool) -> torch.Tensor:
        """What x is to our norm: float32 where CUDA's autocast makes torch's own norms compute and return that."""
        casts = autocast and x.device.type == "cuda" and self.convention in _AUTOCAST
        return x.float() if casts else x

    def compute(
        self, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, rstd_factor: float = 1.0
    ) -> torch.Tensor:
        """Compute the norm of x, [..., hidden], in float64 and round it to x's dtype.

        `rstd_factor` times rstd is what code gets that adds the squares less exactly.
        """
        centered = self._center(x)
        normalized = centered * (self._rstd(centered, x.dtype) * rstd_factor)
        if self.convention == "llama":
            normalized = normalized.to(x.dtype).double()
        return self._scale(normalized, weight, bias).to(x.dtype)

    def bound(
        self, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The least and the greatest output of code that computes in float32 and rounds where the convention does."""
        error = float32_statistic_error(x.shape[-1])
        if self.convention != "layer_norm":
            ends = [self.compute(x, weight, bias, 1 + sign * error) for sign in (-1, 1)]
            return torch.minimum(*ends), torch.maximum(*ends)
        centered = self._center(x)
        rstd = self._rstd(centered, x.dtype)
        terms = (centered * rstd).abs() + x.double().abs().mean(dim=-1, keepdim=True) * rstd
        margin = error * (terms if weight is None else terms * weight.double().abs())
        if bias is not None:
            margin = margin + error * bias.double().abs()
        exact = self._scale(centered * rstd, weight, bias)
        return (exact - margin).to(x.dtype), (exact + margin).to(x.dtype)

    def find_eps(self, dtype: torch.dtype) -> float:
        """The eps for an x of this dtype."""
        return default_eps(dtype) if self.eps is None else self.eps

    def _center(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.double()
        return wide - wide.mean(dim=-1, keepdim=True) if self.convention == "layer_norm" else wide

    def _rstd(self, centered: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.rsqrt(centered.pow(2).mean(dim=-1, keepdim=True) + self.find_eps(dtype))

    def _scale(self, normalized: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
        if weight is not None:
            wide = weight.double()
            normalized = normalized * (1 + wide if self.convention == "gemma" else wide)
        return normalized if bias is None else normalized + bias.double()
