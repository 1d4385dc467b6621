"""RMSNorm in the conventions of models that round or scale differently, each with Definitions of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.operator import ExactOutput
from fib_rmsnorm.operators.rmsnorm import RmsNorm
from fib_rmsnorm.operators.rounding import round_once

if TYPE_CHECKING:
    import torch


class RmsNormLlama(RmsNorm):
    """RMSNorm that rounds the normalized row to the dtype of x before the weight, as Hugging Face's LlamaRMSNorm."""

    name = "rmsnorm_llama"
    convention = "llama"
    formula = (
        "out = weight * (x * rsqrt(mean(x^2) + eps)), where the product in brackets is computed in float32 and cast to "
        "the dtype of x before it is multiplied by the weight."
    )
    reference = '''\
import torch


def run(x, weight, eps):
    """RMSNorm in float32, cast to the dtype of x before the weight, as in Hugging Face's LlamaRMSNorm."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return weight * (x_fp32 * rstd).to(x.dtype)
'''

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute RMSNorm in float64; round to the dtype of x before the weight, and again after it."""
        out = self._compute(inputs, lambda normalized, weight, dtype: _scale(_round(normalized, dtype), weight, dtype))
        return {"out": ExactOutput(out)}

    def compute_alternatives(
        self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]
    ) -> Mapping[str, torch.Tensor]:
        """The other outputs that float32 may give: a normalized value near a tie can round to either side.

        Near means within the error of a sum of squares in float32, whose rounding errors grow as the root of their
        number.
        """
        import torch

        error = torch.finfo(torch.float32).eps * (4 + math.sqrt(inputs["x"].shape[1]))

        def finish(normalized: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            exact, low, high = (_round(normalized * factor, dtype) for factor in (1, 1 - error, 1 + error))
            return _scale(torch.where(low == exact, high, low), weight, dtype)

        return {"out": self._compute(inputs, finish)}


def _round(normalized: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return round_once(normalized, dtype).to(normalized.dtype)


def _scale(normalized: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return round_once(normalized * weight, dtype)


class RmsNormGemma(RmsNorm):
    """RMSNorm that multiplies by 1 + weight, as Gemma does."""

    name = "rmsnorm_gemma"
    convention = "gemma"
    formula = "out = x * rsqrt(mean(x^2) + eps) * (1 + weight), computed in float32 and cast once at the end."
    reference = '''\
import torch


def run(x, weight, eps):
    """RMSNorm times 1 + weight in float32, cast to the dtype of x once at the end, as in Gemma."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * (1.0 + weight.to(torch.float32))).to(x.dtype)
'''

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute RMSNorm in float64 and round once to the dtype of x."""
        out = self._compute(inputs, lambda normalized, weight, dtype: _scale(normalized, 1 + weight, dtype))
        return {"out": ExactOutput(out)}


OPERATORS = (RmsNormLlama(), RmsNormGemma())
