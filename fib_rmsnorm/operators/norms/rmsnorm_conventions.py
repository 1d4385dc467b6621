"""RMSNorm in the conventions of models that round or scale differently, each with Definitions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.norm_options import DTYPE, HIDDEN
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm, normalize_rows
from fib_rmsnorm.operators.norms.rounding import float32_statistic_error, round_once

if TYPE_CHECKING:
    import torch


class RmsNormLlama(RmsNorm):
    """RMSNorm that rounds the normalized row to the dtype of x before the weight, as Hugging Face's LlamaRMSNorm."""

    name = "rmsnorm_llama"
    convention = "llama"
    options = (HIDDEN, DTYPE)
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
    kernel = NormKernel(
        title="Llama's RMSNorm",
        formula="out = weight * (x * rsqrt(mean(x^2) + eps))",
        returns=(
            "Return x, (batch, hidden), with each row divided by its root mean square and scaled by weight, (hidden,)."
        ),
        writes="Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden).",
        note="The product in brackets is rounded to the dtype of x before the weight.",
        epilogues={
            "python": "return (x_fp32 * rstd).to(x.dtype) * weight",
            "triton": """\
normalized = (x * rstd).to(out_ptr.dtype.element_ty)
out = normalized.to(tl.float32) * weight
tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": """\
const Element normalized = static_cast<Element>(static_cast<float>(x[col]) * rstd);
out[col] = static_cast<Element>(static_cast<float>(normalized) * static_cast<float>(weight[col]));""",
            "tilelang": """\
normalized = T.cast(T.cast(x[row, col], "float32") * rstd[0], dtype)
out[row, col] = T.cast(T.cast(normalized, "float32") * T.cast(weight[col], "float32"), dtype)""",
            "tilelang_cpu": """\
else:  # TileLang's C target lacks bfloat16, so torch rounds and multiplies by the weight
    normalized = torch.empty(x.shape)
    compiled(x.shape[1], "float32", "c")(x.float(), torch.ones(weight.shape), eps, normalized)
    torch.mul(normalized.to(x.dtype), weight, out=out)""",
            "cutedsl": """\
normalized = (x[row, col].to(Float32) * rstd).to(out.element_type)
out[row, col] = (normalized.to(Float32) * weight[col].to(Float32)).to(out.element_type)""",
        },
    )

    def scale(self, normalized: torch.Tensor, inputs: Mapping[str, Any], dtype: torch.dtype) -> torch.Tensor:
        """Round to the dtype of x before the weight."""
        weight: torch.Tensor = inputs["weight"]
        return _round(normalized, dtype) * weight

    def compute_alternatives(
        self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]
    ) -> Mapping[str, torch.Tensor]:
        """The other outputs that float32 may give: a normalized value near a tie can round to either side.

        Near means within the error of a statistic in float32.
        """
        import torch

        x = inputs["x"]
        error, out = float32_statistic_error(x.shape[1]), torch.empty_like(x)
        for block, normalized in normalize_rows(inputs):
            exact, low, high = (_round(normalized * factor, x.dtype) for factor in (1, 1 - error, 1 + error))
            other = torch.where(low == exact, high, low) * block.inputs["weight"]
            out[block.rows].copy_(round_once(other, x.dtype))
        return {"out": out}


def _round(normalized: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return round_once(normalized, dtype).to(normalized.dtype)


class RmsNormGemma(RmsNorm):
    """RMSNorm that multiplies by 1 + weight, as Gemma does."""

    name = "rmsnorm_gemma"
    convention = "gemma"
    options = (HIDDEN, DTYPE)
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
    kernel = NormKernel(
        title="Gemma's RMSNorm",
        formula="out = x * rsqrt(mean(x^2) + eps) * (1 + weight)",
        returns=(
            "Return x, (batch, hidden), with each row divided by its root mean square and scaled by 1 + weight, "
            "(hidden,)."
        ),
        writes=(
            "Write the normalized rows of x, (batch, hidden), scaled by 1 + weight, (hidden,), to out, (batch, hidden)."
        ),
        epilogues={
            "python": "return (x_fp32 * rstd * (1 + weight.float())).to(x.dtype)",
            "triton": """\
tl.store(out_ptr + cols, (x * rstd * (1.0 + weight)).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": """\
out[col] = static_cast<Element>(static_cast<float>(x[col]) * rstd * (1 + static_cast<float>(weight[col])));""",
            "tilelang": """\
scale = rstd[0] * (1 + T.cast(weight[col], "float32"))
out[row, col] = T.cast(T.cast(x[row, col], "float32") * scale, dtype)""",
            "cutedsl": """\
out[row, col] = (x[row, col].to(Float32) * rstd * (Float32(1) + weight[col].to(Float32))).to(out.element_type)""",
        },
    )

    def scale(self, normalized: torch.Tensor, inputs: Mapping[str, Any], dtype: torch.dtype) -> torch.Tensor:
        """Multiply by 1 + weight."""
        weight: torch.Tensor = inputs["weight"]
        return normalized * (1 + weight)


OPERATORS = (RmsNormLlama(), RmsNormGemma())
