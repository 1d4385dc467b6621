"""The backward passes of RMSNorm, LayerNorm and add + RMSNorm: the gradients of x, of the weight, and of the bias.

The statistics of the rows are inputs, as in Quack, Liger and torch: the forward pass keeps them in float32. As there
too, the gradients of the weight and the bias are sums over all rows in float32, rounded to the weight's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from fib_rmsnorm.operators.kernel_templates import fill_in
from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, list_blocks, round_once
from fib_rmsnorm.operators.norms.mistakes.rows import Wrong
from fib_rmsnorm.operators.norms.norm_definitions import PER_COLUMN, PER_ELEMENT, PER_ROW, SCALE, NormTensor
from fib_rmsnorm.operators.norms.norm_gradients import GradientRows, list_wrong_dx
from fib_rmsnorm.operators.norms.norm_operator import NormOperator
from fib_rmsnorm.operators.operator import Cost, ExactOutput, HardCase, Inputs, Mistake, Scalar

_EPS = 1e-6
"""The eps of the forward pass that kept rstd."""

_ZERO_DY = "zero row of dy"
_OF_X = {name: make for name, make in hard_rows.HARD_ROWS.items() if name != hard_rows.NEAR_EPS}
_KINDS: hard_rows.Kinds = {
    # With a small dy, so that a dx in 16 bits is finite where rstd is large.
    **{name: lambda rows, make=make: {"x": make(rows["x"]), "dy": rows["dy"] * 1e-2} for name, make in _OF_X.items()},  # type: ignore[misc]
    "dy scaled by 100 (the sum of dy * weight * x above 65504)": lambda rows: {"dy": rows["dy"] * 100},
    _ZERO_DY: lambda rows: {"dy": rows["dy"] * 0},
}


def _reach_limits(rows: hard_rows.Rows, in_float16: float = 1.0) -> hard_rows.Rows:
    """Rows of one magnitude, whose reciprocal rstd is, and a dy of which two elements are as large as dx may be.

    The magnitude is 1, except in float16: with another, float32 would overflow on the way in other dtypes.
    """
    magnitude = in_float16 if rows["dy"].dtype == torch.float16 else 1.0
    x, dy = rows["x"] * 0 + magnitude, rows["dy"] * 0
    x[:, 1::2] = -magnitude
    most = 0.999 * torch.finfo(dy.dtype).max
    dy[:, 0], dy[:, 2 % dy.shape[1]] = most, -most
    return {"x": x, "dy": dy}


_NAN, _INFINITY = hard_rows.NAN, hard_rows.INFINITY
_EXTREME_KINDS: hard_rows.Kinds = {
    **hard_rows.of("x", {f"{each} in x": hard_rows.NON_FINITE_ROWS[each] for each in (_NAN, _INFINITY)}),
    **hard_rows.of("dy", {f"{_NAN} in dy": hard_rows.make_nan, f"{_INFINITY} in dy": hard_rows.make_infinity}),
    hard_rows.LIMITS: _reach_limits,
    "dx beyond the maximum of float16": lambda rows: _reach_limits(rows, 0.5),
}


class RmsNormBackward(NormOperator):
    """The gradients of RMSNorm: computed in float32 and rounded once."""

    name: ClassVar[str] = "rmsnorm_backward"
    equation: ClassVar[str] = "dx = (w - n * mean(w * n)) * rstd, dweight = sum(dy * n) over rows"
    rounding: ClassVar[str] = f"where n = x * rstd and w = dy * weight, {NormOperator.rounding}"
    title = "RMSNorm"  # of which they are the gradients
    kind = "Gradients of a norm"
    casts_inputs = False
    stage = "training"
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "dy": NormTensor(PER_ELEMENT, "Gradient of the norm's output, contiguous by rows."),
        "dnew_residual": NormTensor(PER_ELEMENT, "Gradient of the new residual, the forward pass's second output."),
        "x": NormTensor(PER_ELEMENT, "Activations that were normalized."),
        "weight": SCALE,
        "mean": NormTensor(PER_ROW, "Mean of each row of x, kept by the forward pass."),
        "rstd": NormTensor(PER_ROW, "What the forward pass multiplied each row by, and kept."),
        "dx": NormTensor(PER_ELEMENT, "Gradient of x."),
        "dweight": NormTensor(PER_COLUMN, "Gradient of the weight: a sum over all rows."),
        "dbias": NormTensor(PER_COLUMN, "Gradient of the bias: a sum over all rows."),
    }
    arguments: ClassVar[tuple[str, ...]] = ("dy", "x", "weight", "rstd")
    outputs: ClassVar[tuple[str, ...]] = ("dx", "dweight")
    as_x: ClassVar[tuple[str, ...]] = ("dy", "dnew_residual", "dx")
    dtypes: ClassVar[Mapping[str, str]] = {"mean": "float32", "rstd": "float32"}
    called: ClassVar[Mapping[str, str]] = {
        "dy": r"^(d|g)_?(y|o|out|output|z)$|grad|^g$",
        "dnew_residual": r"^(d|g).*res|res.*grad",
        "mean": r"mean|^mu$",
        "dbias": r"bias|beta|^d?b$",
    }
    scalars: ClassVar[Mapping[str, Scalar]] = {}
    derived: ClassVar[tuple[str, ...]] = ("rstd",)
    kinds: ClassVar[hard_rows.Kinds] = _KINDS
    extreme_kinds: ClassVar[hard_rows.Kinds] = _EXTREME_KINDS
    operations: ClassVar[tuple[int, int]] = (9, 1)
    """The number of operations of an element, and of a row."""
    says: ClassVar[str] = "The gradients of RMSNorm in float32, each cast once at the end; rstd is the forward pass's."
    start: ClassVar[tuple[str, ...]] = (
        "normalized = x.to(torch.float32) * rstd[:, None]",
        "scaled = dy.to(torch.float32) * weight.to(torch.float32)",
        "dx = (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]",
        "dweight = (dy.to(torch.float32) * normalized).sum(dim=0)",
    )
    end: ClassVar[tuple[str, ...]] = ("return dx.to(x.dtype), dweight.to(weight.dtype)",)
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 12, "hidden": 256}

    def takes(self, dtypes: Mapping[str, str]) -> bool:
        """Whether the tensors may have these dtypes: the sums over rows that of the weight, or float32."""
        sums = {dtypes[part] for part in ("dweight", "dbias") if part in dtypes}
        return super().takes(dtypes) and sums <= {dtypes["weight"], "float32"}

    def derive_inputs(self, inputs: Inputs, eps: float = _EPS) -> Mapping[str, torch.Tensor]:
        """Compute the statistics of x that the forward pass keeps: in float64, rounded once."""
        x = inputs["x"]
        made = {part: torch.empty(x.shape[0], dtype=torch.float32, device=x.device) for part in self.derived}
        for rows in list_blocks(x):
            wide = x[rows].double()
            if "mean" in made:
                mean = wide.mean(dim=-1, keepdim=True)
                made["mean"][rows] = mean[:, 0].float()
                wide = wide - mean
            made["rstd"][rows] = torch.rsqrt(wide.square().mean(dim=-1) + eps).float()
        return made

    def compute_exact(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute the gradients in float64 and round them once to their dtypes, with a bound per element.

        The bound is `float32_statistic_error` of the magnitudes of the terms, as all gradients are sums.
        """
        x = inputs["x"]
        dx = torch.empty_like(x, dtype=dtypes["dx"])
        dx_bound = torch.empty_like(x, dtype=torch.bfloat16)  # the size of an error matters, not its digits
        sums = {part: x.new_zeros(x.shape[1], dtype=torch.float64) for part in dtypes if part != "dx"}
        bounds = {part: torch.zeros_like(each) for part, each in sums.items()}
        error = float32_statistic_error(x.shape[0])
        for rows in list_blocks(x):
            gradient = GradientRows(inputs, rows)
            dx[rows] = round_once(gradient.compute_dx(), dx.dtype)
            dx_bound[rows] = gradient.bound_dx().to(dx_bound.dtype)
            for part, (terms, errors) in gradient.list_terms().items():
                if part in sums:
                    sums[part] += terms.sum(dim=0)
                    bounds[part] += (error * terms.abs() + errors).sum(dim=0)
        found = {
            part: ExactOutput(round_once(each, dtypes[part]), bounds[part], common_error=error)
            for part, each in sums.items()
        }
        return {"dx": ExactOutput(dx, dx_bound, common_error=float32_statistic_error(x.shape[1])), **found}

    def mistakes(self, output: str, inputs: Inputs, rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The usual wrong formulas of dx; none of the sums."""
        given = GradientRows(inputs, rows, columns)

        def compute(wrong: Wrong) -> torch.Tensor:
            return round_once(wrong.function(given), inputs["x"].dtype)

        for wrong in list_wrong_dx(given) if output == "dx" else ():
            yield Mistake(f"the output equals dx {wrong.what}: {wrong.fix}", 1, partial(compute, wrong))

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which takes float16, bfloat16 or float32 throughout, statistics apart."""
        if len({dtype for part, dtype in dtypes.items() if part not in self.dtypes}) > 1:
            return None
        return fill_in(
            "norm_backward",
            language,
            title=self.title,
            inputs=list(self.arguments),
            outputs=list(self.outputs),
            rows=[part for part in self.arguments if self.tensors[part].shape == PER_ELEMENT],
            statistics=list(self.derived),
            types={part: "float" if part in self.derived else "Element" for part in self.arguments},
            sums=[part for part in self.outputs if part != "dx"],
        )

    def make_usual_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every hard kind in turn, with statistics by an eps that nobody knows, and hard weights."""
        (made, order), eps = hard_rows.fill_rows(inputs, self.kinds, index), hard_rows.choose_other_eps(_EPS, seed)
        made |= {"weight": hard_rows.make_hard_weight(inputs["weight"]), **self.derive_inputs(made, eps)}
        return HardCase(f"hard rows, statistics by eps={eps:g}", made, order)

    def make_extreme_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every extreme kind in turn, with a weight of ones, where nothing is added to dx."""
        made, order = hard_rows.fill_rows(inputs, self.extreme_kinds, index)
        made |= {"weight": inputs["weight"] * 0 + 1, **self.derive_inputs(made)}
        if "dnew_residual" in inputs:
            made["dnew_residual"] = residual = inputs["dnew_residual"] * 0
            residual[order.index(hard_rows.LIMITS) :: len(order), 1:2] = math.nan  # where dx is 0
        return HardCase(hard_rows.NAME, made, order, explains=False)

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of each element and row."""
        element, row = self.operations
        return Cost(
            flops=sizes["rows"] * (element * sizes["hidden"] + row),
            how=f"{element} operations an element and {row} a row (one division for each mean)",
        )


class RmsNormBiasBackward(RmsNormBackward):
    """The gradients of RMSNorm with a bias, whose own is the sum of dy."""

    name = "rmsnorm_bias_backward"
    equation = "dx = (w - n * mean(w * n)) * rstd, dweight = sum(dy * n) and dbias = sum(dy) over rows"
    outputs = ("dx", "dweight", "dbias")
    operations = (10, 1)
    says = "The gradients of RMSNorm with a bias in float32, each cast once at the end; rstd is the forward pass's."
    end = (
        "dbias = dy.to(torch.float32).sum(dim=0)",
        "return dx.to(x.dtype), dweight.to(weight.dtype), dbias.to(weight.dtype)",
    )


class LayerNormBackward(RmsNormBiasBackward):
    """The gradients of LayerNorm with a weight and a bias: computed in float32 and rounded once."""

    name = "layernorm_backward"
    title = "LayerNorm"
    equation = "dx = (w - mean(w) - n * mean(w * n)) * rstd, dweight = sum(dy * n) and dbias = sum(dy) over rows"
    rounding = f"where n = (x - mean) * rstd and w = dy * weight, {NormOperator.rounding}"
    arguments = ("dy", "x", "weight", "mean", "rstd")
    derived = ("mean", "rstd")
    kinds: ClassVar[hard_rows.Kinds] = {
        **_KINDS,
        "x + 1000 (a mean far above the deviations)": lambda rows: {"x": rows["x"] + 1000},
    }
    operations = (13, 2)
    says = "The gradients of LayerNorm in float32, each cast once at the end; mean and rstd are the forward pass's."
    start = (
        "normalized = (x.to(torch.float32) - mean[:, None]) * rstd[:, None]",
        "scaled = dy.to(torch.float32) * weight.to(torch.float32)",
        "centered = scaled - scaled.mean(dim=-1, keepdim=True)",
        "dx = (centered - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]",
        "dweight = (dy.to(torch.float32) * normalized).sum(dim=0)",
    )


_LARGE = 5000
"""By what dnew_residual is multiplied: most of it is then above 1,000, and all within float16."""
_CANCELS = "dnew_residual near minus the norm's part (dx cancels)"


class FusedAddRmsNormBackward(RmsNormBackward):
    """The gradients of add + RMSNorm: what comes through the norm, plus the gradient of the new residual.

    x and the residual have the same gradient, because only their sum is used. So there is one output, `dx`, for both.
    """

    name = "fused_add_rmsnorm_backward"
    title = "add + RMSNorm"
    equation = "dx = (w - n * mean(w * n)) * rstd + dnew_residual, dweight = sum(dy * n) over rows"
    rounding = (
        "where n = x * rstd, w = dy * weight and x is the saved sum, computed in float32 and cast once at the end; dx "
        "is the gradient of the residual too."
    )
    arguments = ("dy", "dnew_residual", "x", "weight", "rstd")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": NormTensor(PER_ELEMENT, "The sum that was normalized, as the forward pass kept it: its new residual."),
        "dx": NormTensor(PER_ELEMENT, "Gradient of x and of the residual, of which only the sum is used."),
    }
    kinds: ClassVar[hard_rows.Kinds] = {**_KINDS, _CANCELS: lambda rows: rows}
    operations = (10, 1)
    says = (
        "The gradients of add + RMSNorm in float32, each cast once at the end; x is the sum, rstd the forward pass's."
    )
    end = ("return (dx + dnew_residual.to(torch.float32)).to(x.dtype), dweight.to(weight.dtype)",)

    def make_usual_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every hard kind in turn; dnew_residual cancels the norm's part, or is large where that is 0."""
        made = super().make_usual_case(inputs, constants, index, seed)
        if _CANCELS not in made.row_kinds:
            return made
        residual: torch.Tensor = inputs["dnew_residual"].clone()
        residual[made.row_kinds.index(_ZERO_DY) :: len(made.row_kinds)] *= _LARGE
        rows = slice(made.row_kinds.index(_CANCELS), None, len(made.row_kinds))
        chosen = {part: made.inputs[part][rows] for part in ("dy", "x", "rstd")}
        of_norm = self.compute_exact({**chosen, "weight": made.inputs["weight"]}, {"dx": residual.dtype})["dx"]
        residual[rows] = -of_norm.values
        return replace(made, inputs={**made.inputs, "dnew_residual": residual})


OPERATORS = (RmsNormBackward(), RmsNormBiasBackward(), LayerNormBackward(), FusedAddRmsNormBackward())
