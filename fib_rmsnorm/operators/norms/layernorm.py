"""LayerNorm: `out = (x - mean(x)) * rsqrt(var(x) + eps) * weight + bias` (Ba et al. 2016, arXiv:1607.06450).

Its usual mistakes are those of its mean and variance, and RMSNorm's of x less its mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.float64_rows import find_rstd, float32_statistic_error, narrow_dtypes, round_to
from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import usual_mistakes
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, mended_by
from fib_rmsnorm.operators.norms.norm_definitions import NUMBER, PER_COLUMN, PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm
from fib_rmsnorm.operators.norms.rmsnorm_epilogues import RmsNormBias, RmsNormNoWeight
from fib_rmsnorm.operators.operator import ExactOutput, Inputs, Mistake

_CANCELLED = "half of the row cancels with the bias (what is rounded before the bias shows)"


class LayerNormOperator(RmsNorm):
    """The operator LayerNorm over the last axis, with a weight: RMSNorm of x less its mean."""

    name = "layernorm"
    equation = "out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * weight"
    kind = "Layer normalization over the hidden axis"
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "eps": NormTensor(NUMBER, "Added to the variance before the reciprocal square root."),
        "out": NormTensor(PER_ELEMENT, "Activations, normalized and scaled, and shifted if there is a bias."),
    }
    is_centered = True
    start: ClassVar[tuple[str, ...]] = (
        "x_fp32 = x.to(torch.float32)",
        "centered = x_fp32 - x_fp32.mean(dim=-1, keepdim=True)",
        "rstd = torch.rsqrt(centered.pow(2).mean(dim=-1, keepdim=True) + eps)",
    )
    end: ClassVar[tuple[str, ...]] = ("return (centered * rstd * weight.to(torch.float32)).to(x.dtype)",)
    title = "LayerNorm"
    expression = RmsNorm.expression
    short_equation = "out = (x - mean) * rsqrt(var + eps) * weight"
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 10, "hidden": 256}
    kinds: ClassVar[hard_rows.Kinds] = hard_rows.of(
        "x",
        {
            **hard_rows.HARD_ROWS,
            # In bfloat16, all but a few elements of the first are 1000.
            "x + 1000 (a mean far above the deviations: E[x^2] - E[x]^2 has no digits left)": lambda x: x + 1000,
            "x - 3000 (a mean far above the deviations: E[x^2] - E[x]^2 has no digits left)": lambda x: x - 3000,
        },
    )
    steps: ClassVar[tuple[str, ...]] = ("add", "subtract the mean", "square", "add", "times rstd", "times weight")
    steps_of_row = (4, "divide twice, add eps, reciprocal square root")

    def compute_rows(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> dict[str, ExactOutput]:
        """Compute RMSNorm of x less its mean."""
        x = inputs["x"]
        centered = x - x.mean(dim=-1, keepdim=True)
        return super().compute_rows({**inputs, "x": centered, "raw": x}, dtypes)

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """The error of what cancels.

        A float32 mean is off by `float32_statistic_error` of the mean |x|, and so is x - mean, before rstd and the
        weight multiply it. The sum with the bias may cancel too. A wrong mean makes the variance larger by the square
        of its error.
        """
        x: torch.Tensor = inputs["raw"].abs()
        error = float32_statistic_error(scaled.shape[1])
        rstd = find_rstd(inputs["x"], inputs["eps"])
        mean_error = error * x.mean(dim=-1, keepdim=True) * rstd
        terms = error * x * rstd + mean_error + mean_error.square() * (inputs["x"] * rstd).abs()
        bound: torch.Tensor = terms * abs(inputs.get("weight", 1.0)) + error * abs(inputs.get("bias", 0.0))
        return bound.to(torch.bfloat16)  # its size matters, not its digits

    def list_mistakes(self, rows: Rows) -> Iterator[Mistake]:
        """The usual wrong means and variances, and RMSNorm's mistakes of x less its mean."""

        def finish(wrong: Wrong) -> torch.Tensor:
            return rows.round(rows.finish(wrong.function(rows) * rows.part_weight))

        for wrong in _wrong_moments(rows.x.shape[1], rows.dtype):
            yield Mistake(f"the output equals LayerNorm {wrong.what}: {wrong.fix}", 1, partial(finish, wrong))
        yield from usual_mistakes(rows, "LayerNorm", "(x - mean)")


class LayerNormBias(LayerNormOperator, RmsNormBias):
    """LayerNorm with a bias after the weight."""

    name = "layernorm_bias"
    equation = "out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * weight + bias"
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "bias": NormTensor(PER_COLUMN, "Learned shift of each hidden element, added last.")
    }
    end = ("return (centered * rstd * weight.to(torch.float32) + bias.to(torch.float32)).to(x.dtype)",)
    expression = RmsNormBias.expression
    short_equation = "out = (x - mean) * rsqrt(var + eps) * weight + bias"
    kinds: ClassVar[hard_rows.Kinds] = {_CANCELLED: lambda rows: rows, **LayerNormOperator.kinds}

    def make_hard_columns(self, inputs: Inputs, order: tuple[str, ...]) -> dict[str, Any]:
        """Make the bias hard too: it cancels half of a row."""
        weight, bias = hard_rows.make_hard_weight(inputs["weight"]), hard_rows.make_hard_weight(inputs["bias"])
        place = order.index(_CANCELLED)
        if place < len(inputs["x"]):
            row = inputs["x"][place].double()
            scaled = (row - row.mean()) * find_rstd(row - row.mean(), inputs["eps"]) * weight.double()
            bias[1::2] = -scaled[1::2].to(bias.dtype)
        return {"weight": weight, "bias": bias}


class LayerNormNoWeight(LayerNormOperator, RmsNormNoWeight):
    """LayerNorm that only normalizes, as in `F.layer_norm(x, shape)`."""

    name = "layernorm_no_weight"
    equation = "out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps)"
    end: ClassVar[tuple[str, ...]] = ("return (centered * rstd).to(x.dtype)",)
    title = "LayerNorm without a weight"
    says = "LayerNorm in float32, cast to the dtype of x once at the end."
    expression = RmsNormNoWeight.expression
    short_equation = "out = (x - mean) * rsqrt(var + eps)"
    steps: ClassVar[tuple[str, ...]] = LayerNormOperator.steps[:-1]


def _wrong_moments(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield them for x of this size and dtype; each function makes the normalized x in the chosen columns."""
    yield from mended_by(
        "subtract the mean from x, before it is squared and in the output",
        {
            "without the mean subtracted, as RMSNorm": lambda r: r.raw[:, r.columns] * find_rstd(r.raw, r.eps),
            "with the mean subtracted in the variance alone": lambda r: r.raw[:, r.columns] * r.rstd,
            "with mean(x^2) instead of the variance": lambda r: r.part * find_rstd(r.raw, r.eps),
        },
    )
    if padding := (1 << (hidden - 1).bit_length()) - hidden:
        yield Wrong(
            "with the padding of a block counted in the variance",
            "mask x - mean before it is squared: beyond the row it is -mean, not 0",
            lambda r: r.part * torch.rsqrt(r.mean_square + r.mean**2 * padding / hidden + r.eps),
        )
    for precision in (torch.float32, *narrow_dtypes(dtype)):
        if precision is not torch.float32:
            yield Wrong(
                f"with the mean rounded to {dtype_name(precision)}",
                "convert x to float32 first, and keep mean, variance and root in float32",
                partial(_round_mean, dtype=precision),
            )
        yield Wrong(
            f"with the variance as E[x^2] - E[x]^2 in {dtype_name(precision)}",
            "compute mean((x - mean)^2) in a second pass, or by Welford's algorithm",
            partial(_expand_variance, dtype=precision),
        )


def _round_mean(rows: Rows, dtype: torch.dtype) -> torch.Tensor:
    middle = round_to(dtype)(rows.mean)
    return (rows.raw[:, rows.columns] - middle) * find_rstd(rows.raw - middle, rows.eps)


def _expand_variance(rows: Rows, dtype: torch.dtype) -> torch.Tensor:
    """By E[x^2] - E[x]^2, which has no digits left where the mean is far above the standard deviation."""
    x = rows.x[rows.rows].to(dtype)
    middle = x.mean(dim=-1, keepdim=True)
    variance = ((x * x).mean(dim=-1, keepdim=True) - middle * middle).clamp(min=0)
    return (rows.raw[:, rows.columns] - middle.to(torch.float64)) * torch.rsqrt(variance.to(torch.float64) + rows.eps)


OPERATORS = (LayerNormOperator(), LayerNormBias(), LayerNormNoWeight())
