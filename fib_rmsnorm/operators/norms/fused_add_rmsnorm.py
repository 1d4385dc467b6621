"""Add + RMSNorm: `new_residual = x + residual`, and RMSNorm of the sum, in the conventions of libraries or in float8.

A Definition may have the normalized rows as its only output, as flashinfer-bench's `fused_add_rmsnorm_h*` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, round_once
from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import wrong_outputs
from fib_rmsnorm.operators.norms.mistakes.rows import Rows
from fib_rmsnorm.operators.norms.norm_definitions import PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm, RmsNormGemma, RmsNormLlama
from fib_rmsnorm.operators.norms.rmsnorm_fp8 import RmsNormFp8, RmsNormFp8PerRow
from fib_rmsnorm.operators.operator import ExactOutput, Inputs, Mistake, Parts

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

_SUMMED = ("x", "residual")


def _nearly_cancel(rows: hard_rows.Rows) -> hard_rows.Rows:
    """Leave a few units in the last place of each x."""
    x = rows["x"]
    steps = 4 * torch.finfo(x.dtype).eps * rows["residual"].float().sign()
    return {"residual": -(x.float() * (1 + steps)).to(x.dtype)}


def _make_both(rows: hard_rows.Rows, make: hard_rows.Maker) -> hard_rows.Rows:
    return {part: make(each) for part, each in rows.items()}


# The name of a kind of row says what it breaks, in words that hold for every dtype. 65504 is the maximum of float16.
_KINDS: hard_rows.Kinds = {
    "residual scaled by 300 (squares of the sum above 65504)": lambda rows: {"residual": rows["residual"] * 300},
    hard_rows.NEAR_EPS: lambda rows: rows,
    "x and residual scaled by 1e-4 (eps dominates)": lambda rows: _make_both(rows, lambda each: each * 1e-4),
    "residual = -x (the sum is zero)": lambda rows: {"residual": -rows["x"]},
    "residual near -x (the sum cancels)": _nearly_cancel,
    "huge first column": lambda rows: {"x": hard_rows.make_huge_column(rows["x"], 0)},
    "huge last column": lambda rows: {"x": hard_rows.make_huge_column(rows["x"], -1)},
    "constant row": lambda rows: {"x": rows["x"] * 0 + 3.0, "residual": rows["residual"] * 0 + 1.0},
    "x and residual scaled by 1e-6 (nearly zero)": lambda rows: _make_both(rows, lambda each: each * 1e-6),
    "x and residual as large as their dtype allows (above 65504, but in float16)": lambda rows: _make_both(
        rows, hard_rows.scale_to_reach
    ),
}

# The sum of the rows has the special values: nothing is added to x.
_SPECIAL_KINDS: hard_rows.Kinds = {
    **{
        name: lambda rows, make=make: {"x": make(rows["x"]), "residual": rows["residual"] * 0}  # type: ignore[misc]
        for name, make in hard_rows.SPECIAL_ROWS.items()
    },
    "residual 200 times smaller than x": lambda rows: {"residual": rows["residual"] / 200},
}


class FusedAddRmsNorm(RmsNorm):
    """Add and normalize in float32, as FlashInfer, Quack and flashinfer-bench do: the unrounded sum is normalized.

    A subclass that has another norm as its second base computes that norm of the sum.
    """

    name: ClassVar[str] = "fused_add_rmsnorm"
    equation: ClassVar[str] = "new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * weight"
    rounding: ClassVar[str] = "where s is the sum in float32 before it is rounded to new_residual."
    rounds_sum: ClassVar[bool] = False
    """Whether the sum is rounded to the dtype of x before it is normalized."""
    title = "Add + RMSNorm"
    does = "Add x and residual, (batch, hidden), normalize the rows of the sum, and scale them by weight, (hidden,)."
    expression = RmsNorm.expression
    short_equation = "new_residual = x + residual, and out = its RMSNorm * weight"
    arguments: ClassVar[tuple[str, ...]] = ("x", "residual", "weight", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "residual": NormTensor(PER_ELEMENT, "What is added to them: the sum of all layers before."),
        "out": NormTensor(PER_ELEMENT, "The sum, normalized and scaled."),
        "new_residual": NormTensor(PER_ELEMENT, "The sum, rounded to the dtype of the residual."),
    }
    outputs: ClassVar[tuple[str, ...]] = ("out", "new_residual")
    as_x = ("residual", "out", "new_residual")
    says: ClassVar[str] = "Add and normalize in float32; round both outputs once at the end."
    start: ClassVar[tuple[str, ...]] = (
        "total = x.to(torch.float32) + residual.to(torch.float32)",
        "mean_square = total.pow(2).mean(dim=-1, keepdim=True)",
        "rstd = torch.rsqrt(mean_square + eps)",
    )
    end: ClassVar[tuple[str, ...]] = (
        "return (total * rstd * weight.to(torch.float32)).to(x.dtype), total.to(residual.dtype)",
    )
    kinds: ClassVar[hard_rows.Kinds] = {
        **_KINDS,
        "one sum of 80000 (above 65504)": lambda rows: _make_both(
            rows, lambda each: hard_rows.set_somewhere(each, 40000.0)
        ),
    }
    extreme_kinds: ClassVar[hard_rows.Kinds] = {
        **hard_rows.of("x", hard_rows.EXTREME_ROWS),
        **hard_rows.make_non_finite_kinds("residual"),
        hard_rows.LIMITS: lambda rows: {"x": hard_rows.make_limits(rows["x"]), "residual": rows["residual"] * 0},
    }
    special_kinds: ClassVar[hard_rows.Kinds] = _SPECIAL_KINDS
    called: ClassVar[Mapping[str, str]] = {"residual": "res", "new_residual": "res"}
    near_eps = _SUMMED
    steps = ("add the residual", *RmsNorm.steps)

    def list_parts(self, definition: Definition, outputs: Iterable[str] | None = None) -> list[Parts]:
        """The outputs in all orders, those named for the residual first; x and the residual can be exchanged."""
        found: dict[tuple[str, ...], Parts] = {}
        for parts in super().list_parts(definition, self.outputs[: len(definition.outputs)]):
            others = (name for part, name in parts.tensors.items() if part not in _SUMMED)
            found.setdefault(tuple(others), parts)
        return list(found.values())

    def compute_rows(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> dict[str, ExactOutput]:
        """Add in float64 and normalize the sum, rounded first if the convention says so.

        There is no bound beyond the tolerance: one addition is exact to half a unit of its result, even where it
        cancels.
        """
        total = inputs["x"] + inputs["residual"]
        summed = round_once(total, dtypes["x"]).to(total.dtype) if self.rounds_sum else total
        found = super().compute_rows({**inputs, "x": summed}, dtypes)
        if "new_residual" in dtypes:
            found["new_residual"] = ExactOutput(round_once(total, dtypes["new_residual"]), common_error=FLOAT32_EPS)
        return found

    def mistakes(self, output: str, inputs: Inputs, rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The usual wrong formulas of the sum, and of what is computed of it."""
        if output != "new_residual":
            return super().mistakes(output, inputs, rows, columns)
        given = Rows(inputs, rows, columns, inputs["x"].dtype, self.finish)
        said = {"x": "x", "residual": "the residual that was passed"}
        return [
            Mistake(f"the output equals {what}: write x + residual", 1, partial(given.round, given.parts[part]))
            for part, what in said.items()
        ]

    def list_mistakes(self, rows: Rows) -> Iterable[Mistake]:
        """The usual wrong formulas of what is normalized, and those of the norm."""
        of_dtype = [] if self.is_strict else [each for each in OPERATORS if not each.is_strict]
        alike, others = (
            {each.convention: each.name for each in of_dtype if (each.rounds_sum is self.rounds_sum) is is_alike}
            for is_alike in (True, False)
        )
        return wrong_outputs(rows, alike, others, rounds_sum=self.rounds_sum)


class FusedAddRmsNormRounded(FusedAddRmsNorm):
    """Round the sum to the dtype of x before it is normalized, as torch does for `F.rms_norm(x + residual)`."""

    name = "fused_add_rmsnorm_rounded"
    equation = "new_residual = x + residual; out = new_residual * rsqrt(mean(new_residual^2) + eps) * weight"
    rounding = "computed in float32 from the rounded sum and cast once at the end."
    rounds_sum = True
    kinds: ClassVar[hard_rows.Kinds] = {
        **_KINDS,
        "one sum of 60000": lambda rows: _make_both(rows, lambda each: hard_rows.set_somewhere(each, 30000.0)),
    }
    says = "Add in the dtype of x, then RMSNorm of the rounded sum in float32, cast once at the end."
    start = (
        "total = x + residual",
        "total_fp32 = total.to(torch.float32)",
        "mean_square = total_fp32.pow(2).mean(dim=-1, keepdim=True)",
        "rstd = torch.rsqrt(mean_square + eps)",
    )
    end = ("return (total_fp32 * rstd * weight.to(torch.float32)).to(x.dtype), total",)


class FusedAddRmsNormLlama(FusedAddRmsNormRounded, RmsNormLlama):
    """Round the sum, and the normalized rows before the weight, as Hugging Face's Llama, vLLM and Liger do."""

    name = "fused_add_rmsnorm_llama"
    equation = "new_residual = x + residual; out = weight * (new_residual * rsqrt(mean(new_residual^2) + eps))"
    rounding = (
        "where the product in brackets is computed in float32 from the rounded sum and cast to the dtype of x before "
        "the weight."
    )
    says = "Add in the dtype of x, then RMSNorm in float32, cast before the weight, as in Hugging Face's Llama."
    end = ("return weight * (total_fp32 * rstd).to(x.dtype), total",)


class FusedAddRmsNormGemma(FusedAddRmsNorm, RmsNormGemma):
    """Multiply by 1 + weight, as FlashInfer's `gemma_fused_add_rmsnorm` does."""

    name = "fused_add_rmsnorm_gemma"
    equation = "new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * (1 + weight)"
    says = "Add, normalize and multiply by 1 + weight in float32; round both outputs once at the end."
    end = ("return (total * rstd * (1.0 + weight.to(torch.float32))).to(x.dtype), total.to(residual.dtype)",)


_SCALED = "scaled = total * rstd * weight.to(torch.float32)"


class FusedAddRmsNormFp8(FusedAddRmsNorm, RmsNormFp8):
    """Add, normalize, and divide by a scale that is an input, in float8_e4m3fn."""

    name = "fused_add_rmsnorm_fp8"
    equation = f"{FusedAddRmsNorm.equation} / out_scale"
    rounding = f"{FusedAddRmsNorm.rounding[:-1]}; out is limited to 448 and cast to float8_e4m3fn once at the end."
    arguments = ("x", "residual", "weight", "out_scale", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {"out": RmsNormFp8.tensors["out"]}
    extreme_kinds = RmsNormFp8.extreme_kinds
    says = "Add and normalize in float32; divide by out_scale, limit, and round both outputs once at the end."
    end = (
        _SCALED,
        "out = (scaled / out_scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)",
        "return out, total.to(residual.dtype)",
    )
    steps = (*FusedAddRmsNorm.steps, "divide by the scale", "two limits")


class FusedAddRmsNormFp8PerRow(FusedAddRmsNorm, RmsNormFp8PerRow):
    """Add, normalize, and divide by a scale of each row, which is a third output, in float8_e4m3fn."""

    name = "fused_add_rmsnorm_fp8_per_row"
    equation = "new_residual = x + residual; y = s * rsqrt(mean(s^2) + eps) * weight"
    rounding = (
        "where s is the sum in float32 before it is rounded to new_residual; out_scale = max(max|y| / 448, 1 / (448 * "
        "512)) of each row, out = y / out_scale cast to float8_e4m3fn once at the end."
    )
    tensors: ClassVar[Mapping[str, NormTensor]] = {"out": RmsNormFp8PerRow.tensors["out"]}
    outputs = ("out", "new_residual", "out_scale")
    extreme_kinds = RmsNormFp8PerRow.extreme_kinds
    says = "Add and normalize in float32; divide each row by a scale, which is returned too, and round once at the end."
    end = (
        _SCALED,
        "out_scale = (scaled.abs().amax(dim=-1) / 448.0).clamp(min=1 / (448.0 * 512.0))",
        "out = (scaled / out_scale[:, None]).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)",
        "return out, total.to(residual.dtype), out_scale",
    )
    steps = (*FusedAddRmsNorm.steps, "magnitude", "maximum", "divide by the scale", "two limits")


OPERATORS = (
    FusedAddRmsNorm(),
    FusedAddRmsNormRounded(),
    FusedAddRmsNormLlama(),
    FusedAddRmsNormGemma(),
    FusedAddRmsNormFp8(),
    FusedAddRmsNormFp8PerRow(),
)
