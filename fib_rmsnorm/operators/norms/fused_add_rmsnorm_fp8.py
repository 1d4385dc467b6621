"""Add + RMSNorm, quantised to float8 with a scale: one for all, or one for each row, which is a third output.

The sum is not rounded before it is normalized, as in `fused_add_rmsnorm`; the norm is quantised as in `rmsnorm_fp8`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.fused_add_rmsnorm import TENSORS, FusedAddRmsNorm
from fib_rmsnorm.operators.norms.norm_definitions import NormTensor
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.rmsnorm_fp8 import RmsNormFp8, RmsNormFp8PerRow, cut_columns, draw_scale_factor
from fib_rmsnorm.operators.operator import HardCase, Mistake, Scalar

if TYPE_CHECKING:
    import torch

_NORM = """\
    total = x.to(torch.float32) + residual.to(torch.float32)
    mean_square = total.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    scaled = total * rstd * weight.to(torch.float32)
"""
_STATIC, _PER_ROW = RmsNormFp8(), RmsNormFp8PerRow()


class FusedAddRmsNormFp8(FusedAddRmsNorm):
    """Add, normalize, and divide by a scale that is an input, in float8_e4m3fn."""

    name = "fused_add_rmsnorm_fp8"
    formula = (
        "new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * weight / out_scale, where s is the sum in "
        "float32 before it is rounded to new_residual; out is limited to 448 and cast to float8_e4m3fn once at the end."
    )
    norm = _STATIC
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        **{part: TENSORS[part] for part in ("x", "residual", "weight")},
        "out_scale": _STATIC.tensors["out_scale"],
        "eps": TENSORS["eps"],
        "out": _STATIC.tensors["out"],
        "new_residual": TENSORS["new_residual"],
    }
    arguments = ("x", "residual", "weight", "out_scale", "eps")
    dtypes = _STATIC.dtypes
    scalars: ClassVar[Mapping[str, Scalar]] = _STATIC.scalars
    derived = _STATIC.derived
    extreme_kinds = _STATIC.extreme_kinds
    reference = f'''\
import torch


def run(x, residual, weight, out_scale, eps):
    """Add and normalize in float32; divide by out_scale, limit, and round both outputs once at the end."""
{_NORM}    out = (scaled / out_scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return out, total.to(residual.dtype)
'''
    kernel = NormKernel(
        title="Add + RMSNorm",
        formula="s = x + residual, new_residual = s, out = s * rsqrt(mean(s^2) + eps) * weight / out_scale",
        returns="Return the rows of x + residual, normalized, scaled by weight and divided by out_scale, and the sum.",
        family="quantised_norm",
    )
    steps = (*FusedAddRmsNorm.steps, "divide by the scale", "two limits")

    def derive_inputs(self, inputs: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
        """Make a scale that is a tensor of one element, which at random could be negative."""
        return _STATIC.derive_inputs(inputs)

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make hard rows, with another scale than the Workload's."""
        made = super().make_hard_case(inputs, constants, index, seed)
        return replace(made, inputs={**made.inputs, "out_scale": inputs["out_scale"] * draw_scale_factor(index, seed)})

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of the sum, of RMSNorm, and of the quantisation."""
        import torch

        from fib_rmsnorm.operators.norms.mistakes.residual_mistakes import Sums, wrong_outputs

        if output == "new_residual":
            return super().mistakes(output, inputs, rows, columns)
        epilogues = list(_STATIC.wrong_epilogues(inputs["x"].dtype))
        form = getattr(torch, _STATIC.form)
        sums = Sums(inputs, rows, columns, _STATIC.finish, epilogues=epilogues, form=form)
        return wrong_outputs(sums, self.norm.convention, rounds_sum=False)


class FusedAddRmsNormFp8PerRow(FusedAddRmsNorm):
    """Add, normalize, and divide by a scale of each row, which is a third output, in float8_e4m3fn."""

    name = "fused_add_rmsnorm_fp8_per_row"
    formula = (
        "new_residual = x + residual; y = s * rsqrt(mean(s^2) + eps) * weight, where s is the sum in float32 before it "
        "is rounded to new_residual; out_scale = max(max|y| / 448, 1 / (448 * 512)) of each row, out = y / out_scale "
        "cast to float8_e4m3fn once at the end."
    )
    norm = _PER_ROW
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        **TENSORS,
        "out": _PER_ROW.tensors["out"],
        "out_scale": _PER_ROW.tensors["out_scale"],
    }
    dtypes = _PER_ROW.dtypes
    extreme_kinds = _PER_ROW.extreme_kinds
    reference = f'''\
import torch


def run(x, residual, weight, eps):
    """Add and normalize in float32; divide each row by a scale, which is returned too, and round once at the end."""
{_NORM}    out_scale = (scaled.abs().amax(dim=-1) / 448.0).clamp(min=1 / (448.0 * 512.0))
    out = (scaled / out_scale[:, None]).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return out, total.to(residual.dtype), out_scale
'''
    kernel = NormKernel(
        title="Add + RMSNorm",
        formula=(
            "s = x + residual, new_residual = s, y = s * rsqrt(mean(s^2) + eps) * weight, out_scale = max(max|y| "
            "/ largest, 1 / (largest * 512)), out = y / out_scale"
        ),
        returns=(
            "Return the rows of x + residual, normalized, scaled and divided by their scales, the sum, and the scales."
        ),
        family="quantised_norm",
    )
    steps = (*FusedAddRmsNorm.steps, "magnitude", "maximum", "divide by the scale", "two limits")

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterator[Mistake]:
        """The usual wrong formulas of the sum, of RMSNorm, and of the scale."""
        import torch

        from fib_rmsnorm.operators.norms.mistakes.residual_mistakes import Sums, wrong_outputs

        if output == "new_residual":
            yield from super().mistakes(output, inputs, rows, columns)
            return
        epilogue, epilogues = _PER_ROW.describe_epilogue(output, inputs["x"].dtype)
        all_columns = torch.arange(inputs["x"].shape[1], device=rows.device)  # a scale needs them
        form = getattr(torch, self.dtypes[output])
        sums = Sums(inputs, rows, all_columns, epilogue, epilogues=epilogues, form=form)
        for mistake in wrong_outputs(sums, self.norm.convention, rounds_sum=False):
            yield cut_columns(mistake, columns)


OPERATORS = (FusedAddRmsNormFp8(), FusedAddRmsNormFp8PerRow())
