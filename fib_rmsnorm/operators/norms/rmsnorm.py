"""RMSNorm: `out = x * rsqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich 2019, arXiv:1910.07467).

The first class is the base of those that apply the weight otherwise, as Llama and Gemma do, or do more with the scaled
rows. Each has Definitions of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.float64_rows import RowBlock, float32_statistic_error, round_once, split_rows
from fib_rmsnorm.operators.norms.norm_definitions import DTYPE, HIDDEN, NUMBER, PER_COLUMN, PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.norm_operator import NormOperator
from fib_rmsnorm.operators.operator import ExactOutput, Mistake

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.operators.norms.mistakes.rows import Wrong

REFERENCE = '''\
import torch


def run(x, weight, eps):
    """RMSNorm in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)
'''

X = NormTensor(PER_ELEMENT, "Activations, contiguous by rows.")
SCALE = NormTensor(PER_COLUMN, "Learned scale of each hidden element.")
EPS = NormTensor(NUMBER, "Added to the mean square before the reciprocal square root.")
OUT = NormTensor(PER_ELEMENT, "Normalized and scaled activations.")

_CONVENTIONS = {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}
"""The operator of each convention."""


class RmsNorm(NormOperator):
    """The operator RMSNorm over the last axis, in the convention of torch: computed in float32 and rounded once."""

    name: ClassVar[str] = "rmsnorm"
    """The start of its Definitions' names."""
    convention: ClassVar[str] = "torch"
    """The library in whose way the weight is applied."""
    formula: ClassVar[str] = "out = x * rsqrt(mean(x^2) + eps) * weight, computed in float32 and cast once at the end."
    tensors: ClassVar[Mapping[str, NormTensor]] = {"x": X, "weight": SCALE, "eps": EPS, "out": OUT}
    arguments: ClassVar[tuple[str, ...]] = ("x", "weight", "eps")
    reference: ClassVar[str] = REFERENCE
    steps: ClassVar[tuple[str, ...]] = ("square", "add", "times rstd", "times weight")
    kernel: ClassVar[NormKernel | None] = NormKernel(
        title="RMSNorm",
        formula="out = x * rsqrt(mean(x^2) + eps) * weight",
        returns=(
            "Return x, (batch, hidden), with each row divided by its root mean square and scaled by weight, (hidden,)."
        ),
        writes="Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden).",
        epilogues={
            "python": "return (x_fp32 * rstd * weight.float()).to(x.dtype)",
            "triton": "tl.store(out_ptr + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)",
            "cpp": """\
out[col] = static_cast<Element>(static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]));""",
            "tilelang": """\
scale = rstd[0] * T.cast(weight[col], "float32")
out[row, col] = T.cast(T.cast(x[row, col], "float32") * scale, dtype)""",
            "cutedsl": """\
out[row, col] = (x[row, col].to(Float32) * rstd * weight[col].to(Float32)).to(out.element_type)""",
        },
    )
    is_strict: ClassVar[bool] = False
    """Whether `bound_error` is all of the error that an element of `out` may have."""

    def scale(self, normalized: torch.Tensor, inputs: Mapping[str, Any], dtype: torch.dtype) -> torch.Tensor:
        """Apply the weight to rows of x * rstd, all in float64; `dtype` is that of x."""
        weight: torch.Tensor = inputs["weight"]
        return normalized * weight

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """The epilogue: what becomes of the scaled rows before they are rounded, all in float64."""
        return scaled

    def bound_error(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor | None:
        """The error that the epilogue's outputs may have beyond their dtype's tolerance; None if nothing cancels."""
        return None

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute the outputs in float64 and round them once."""
        import torch

        x = inputs["x"]
        out = torch.empty_like(x, dtype=dtypes["out"])
        bound: torch.Tensor | None = None
        for block, normalized in normalize_rows(inputs):
            scaled = self.scale(normalized, block.inputs, x.dtype)
            out[block.rows].copy_(round_once(self.finish(scaled, block.inputs), out.dtype))
            may_err = self.bound_error(scaled, block.inputs)
            if may_err is not None:
                bound = torch.empty_like(x, dtype=torch.float32) if bound is None else bound
                bound[block.rows].copy_(may_err)
        error = float32_statistic_error(x.shape[1])
        return {"out": ExactOutput(out, bound, is_strict=self.is_strict, common_error=error)}

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of RMSNorm, and of the epilogue."""
        from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import usual_mistakes
        from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wording

        called = Rows(inputs, rows, columns, self.finish)
        epilogues = self.wrong_epilogues(called.x.dtype)
        wording = Wording(operators=_CONVENTIONS if type(self).finish is RmsNorm.finish else {})
        return usual_mistakes(called, self.convention, wording, epilogues)

    def wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes in the epilogue, for x of this dtype."""
        return ()


def normalize_rows(inputs: Mapping[str, Any]) -> Iterator[tuple[RowBlock, torch.Tensor]]:
    """Blocks of rows, each with x * rstd, [rows, hidden], in float64."""
    import torch

    for block in split_rows(inputs):
        x = block.inputs["x"]
        yield block, x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + inputs["eps"])


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


OPERATORS = (RmsNorm(), RmsNormLlama(), RmsNormGemma())
