"""RMSNorm, quantised to float8 with a scale: one for all, or one for each row, which is a second output.

`out * out_scale` is the norm: it is divided by the scale, limited to the largest number of the format, and rounded to
nearest, ties to even. Nothing is rounded before that.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, round_once
from fib_rmsnorm.operators.norms.hard_rows import Kinds
from fib_rmsnorm.operators.norms.norm_definitions import NUMBER_OR_ONE, PER_ELEMENT, PER_ROW, NormTensor
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.rmsnorm import EPS, SCALE, RmsNorm, X, normalize_rows
from fib_rmsnorm.operators.operator import ExactOutput, HardCase, Mistake, Scalar

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.operators.norms.mistakes.rows import Epilogue, Wrong

_USUAL_SCALE = 0.05
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_SMALLEST_SCALE = 512.0
"""A row's scale is at least 1 / (the largest number * this), so that a row of zeros has one: vLLM's convention."""

_NORM = """\
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    scaled = x_fp32 * rstd * weight.to(torch.float32)
"""
_OUT = NormTensor(PER_ELEMENT, "Normalized and scaled activations, divided by out_scale.")


def draw_scale_factor(index: int, seed: str) -> float:
    """By what hard cases multiply a Workload's scale: in turn by more, and by so little that outputs saturate."""
    least, most = (40.0, 400.0) if index % 2 == 0 else (1 / 2000, 1 / 20)
    return float(least * (most / least) ** random.Random(f"{seed} scale {index}").random())


def _write_reference(form: str) -> str:
    largest = _LARGEST[form]
    return f'''\
import torch


def run(x, weight, out_scale, eps):
    """RMSNorm in float32, divided by out_scale, limited and cast to {form} once at the end."""
{_NORM}    return (scaled / out_scale).clamp(-{largest}, {largest}).to(torch.{form})
'''


def _write_reference_per_row(form: str) -> str:
    largest = _LARGEST[form]
    return f'''\
import torch


def run(x, weight, eps):
    """RMSNorm in float32; each row is divided by a scale, which is returned too, and cast to {form} once at the end."""
{_NORM}    out_scale = (scaled.abs().amax(dim=-1) / {largest}).clamp(min=1 / ({largest} * {_SMALLEST_SCALE}))
    return (scaled / out_scale[:, None]).clamp(-{largest}, {largest}).to(torch.{form}), out_scale
'''


class RmsNormFp8(RmsNorm):
    """RMSNorm, divided by a scale that is an input, in float8_e4m3fn: as FlashInfer's `rmsnorm_quant`."""

    name = "rmsnorm_fp8"
    form: ClassVar[str] = "float8_e4m3fn"
    formula = (
        "out = x * rsqrt(mean(x^2) + eps) * weight / out_scale, computed in float32, limited to 448 and cast to "
        "float8_e4m3fn once at the end."
    )
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": X,
        "weight": SCALE,
        "out_scale": NormTensor(NUMBER_OR_ONE, "What a step of out stands for: the norm is out * out_scale."),
        "eps": EPS,
        "out": _OUT,
    }
    arguments = ("x", "weight", "out_scale", "eps")
    dtypes: ClassVar[Mapping[str, str]] = {"out": form, "out_scale": "float32"}
    reference = _write_reference(form)
    kernel = NormKernel(
        title="RMSNorm",
        formula="out = x * rsqrt(mean(x^2) + eps) * weight / out_scale",
        returns=(
            "Return x, (batch, hidden), with each row normalized, scaled by weight, (hidden,), and divided by "
            "out_scale."
        ),
        family="quantised_norm",
    )
    scalars: ClassVar[Mapping[str, Scalar]] = {**RmsNorm.scalars, "out_scale": Scalar(_USUAL_SCALE, least=1e-12)}
    derived = ("out_scale",)
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {}  # limits and maxima of GPUs pass over a NaN, torch's do not
    steps = (*RmsNorm.steps, "divide by the scale", "two limits")
    is_strict = True

    @property
    def largest(self) -> float:
        """The largest number of the format."""
        return _LARGEST[self.form]

    def derive_inputs(self, inputs: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
        """Make a scale that is a tensor of one element, which at random could be negative."""
        scale = inputs["out_scale"]
        return {"out_scale": scale * 0 + _USUAL_SCALE} if hasattr(scale, "dim") else {}

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make hard rows, with another scale than the Workload's."""
        made = super().make_hard_case(inputs, constants, index, seed)
        return replace(made, inputs={**made.inputs, "out_scale": inputs["out_scale"] * draw_scale_factor(index, seed)})

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Divide by the scale, and limit."""
        scale: torch.Tensor | float = inputs["out_scale"]
        return (scaled / scale).clamp(-self.largest, self.largest)

    def bound_error(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor | None:
        """A step where float32's errors reach a tie, and nothing elsewhere."""
        return bound_step(self.finish(scaled, inputs), 2 * float32_statistic_error(scaled.shape[1]), self.form)

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of RMSNorm, and of the quantisation."""
        import torch

        from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import usual_mistakes
        from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wording

        called = Rows(inputs, rows, columns, self.finish)
        epilogues = self.wrong_epilogues(called.x.dtype)
        form = getattr(torch, self.form)
        return usual_mistakes(called, self.convention, Wording(), epilogues, output_dtype=form)

    def wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes in the quantisation."""
        from fib_rmsnorm.operators.norms.mistakes.wrong_epilogues import wrong_quantisations

        return wrong_quantisations(dtype, self.form, self.largest)


class RmsNormFp8E5m2(RmsNormFp8):
    """The same in float8_e5m2."""

    name = "rmsnorm_fp8_e5m2"
    form = "float8_e5m2"
    formula = RmsNormFp8.formula.replace("448", "57344").replace("float8_e4m3fn", form)
    dtypes: ClassVar[Mapping[str, str]] = {**RmsNormFp8.dtypes, "out": form}
    reference = _write_reference(form)


class RmsNormFp8PerRow(RmsNorm):
    """RMSNorm, divided by a scale of each row, which is a second output, in float8_e4m3fn."""

    name = "rmsnorm_fp8_per_row"
    form: ClassVar[str] = "float8_e4m3fn"
    formula = (
        "y = x * rsqrt(mean(x^2) + eps) * weight, out_scale = max(max|y| / 448, 1 / (448 * 512)) of each row, "
        "out = y / out_scale, computed in float32 and cast to float8_e4m3fn once at the end."
    )
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": X,
        "weight": SCALE,
        "eps": EPS,
        "out": _OUT,
        "out_scale": NormTensor(PER_ROW, "What a step of each row stands for: the norm is out * out_scale."),
    }
    dtypes: ClassVar[Mapping[str, str]] = {"out": form, "out_scale": "float32"}
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {}  # limits and maxima of GPUs pass over a NaN, torch's do not
    reference = _write_reference_per_row(form)
    kernel = NormKernel(
        title="RMSNorm",
        formula=(
            "y = x * rsqrt(mean(x^2) + eps) * weight, out_scale = max(max|y| / largest, 1 / (largest * 512)), "
            "out = y / out_scale"
        ),
        returns=(
            "Return x normalized, scaled by weight and divided by its rows' scales, (batch, hidden), and these, "
            "(batch,)."
        ),
        family="quantised_norm",
    )
    steps = (*RmsNorm.steps, "magnitude", "maximum", "divide by the scale", "two limits")

    @property
    def largest(self) -> float:
        """The largest number of the format."""
        return _LARGEST[self.form]

    def scale_rows(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """The scale of each row, [rows, 1], of all its columns."""
        limit = 1 / (self.largest * _SMALLEST_SCALE)
        return (scaled.abs().amax(dim=-1, keepdim=True) / self.largest).clamp(min=limit)

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Divide by the rows' scales, and limit."""
        return (scaled / self.scale_rows(scaled, inputs)).clamp(-self.largest, self.largest)

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute both outputs in float64 and round them once."""
        import torch

        x = inputs["x"]
        out, bound = torch.empty_like(x, dtype=dtypes["out"]), torch.empty_like(x, dtype=torch.float32)
        scales = torch.empty_like(x[:, 0], dtype=torch.float32)
        error = float32_statistic_error(x.shape[1])
        for block, normalized in normalize_rows(inputs):
            scaled = self.scale(normalized, block.inputs, x.dtype)
            quantised = self.finish(scaled, block.inputs)
            out[block.rows].copy_(round_once(quantised, out.dtype))
            bound[block.rows].copy_(bound_step(quantised, 2 * error, self.form))
            scales[block.rows].copy_(self.scale_rows(scaled, block.inputs).squeeze(1))
        return {
            "out": ExactOutput(out, bound, is_strict=True, common_error=error),
            "out_scale": ExactOutput(scales, error * scales, common_error=error),
        }

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterator[Mistake]:
        """The usual wrong formulas of RMSNorm, and of the scale."""
        import torch

        from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import usual_mistakes
        from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wording

        epilogue, epilogues = self.describe_epilogue(output, inputs["x"].dtype)
        all_columns = torch.arange(inputs["x"].shape[1], device=rows.device)  # a scale needs them
        called, form = Rows(inputs, rows, all_columns, epilogue), getattr(torch, self.dtypes[output])
        for mistake in usual_mistakes(called, self.convention, Wording(), epilogues, output_dtype=form):
            yield cut_columns(mistake, columns)

    def describe_epilogue(self, output: str, dtype: torch.dtype) -> tuple[Epilogue, list[Wrong]]:
        """What makes an output of whole scaled rows, and the usual mistakes in it, for x of this dtype."""
        from fib_rmsnorm.operators.norms.mistakes.wrong_epilogues import wrong_row_scales

        is_scale = output == "out_scale"
        wrong = wrong_row_scales(dtype, self.largest, self.scale_rows, is_scale=is_scale)
        return (self.scale_rows if is_scale else self.finish), list(wrong)


class RmsNormFp8PerRowE5m2(RmsNormFp8PerRow):
    """The same in float8_e5m2."""

    name = "rmsnorm_fp8_per_row_e5m2"
    form = "float8_e5m2"
    formula = RmsNormFp8PerRow.formula.replace("448", "57344").replace("float8_e4m3fn", form)
    dtypes: ClassVar[Mapping[str, str]] = {**RmsNormFp8PerRow.dtypes, "out": form}
    reference = _write_reference_per_row(form)


def cut_columns(mistake: Mistake, columns: torch.Tensor) -> Mistake:
    """A mistake in whole rows, for some of their columns."""

    def compute() -> torch.Tensor:
        import torch

        whole = mistake.compute()
        cut = whole.view(torch.uint8) if whole.element_size() == 1 else whole
        return cut[:, columns].view(whole.dtype)

    return replace(mistake, compute=compute)


def bound_step(values: torch.Tensor, error: float, form: str) -> torch.Tensor:
    """How far a relative error of float64 values, before they are rounded to a format, can move them after it."""
    import torch

    dtype = getattr(torch, form)
    low, exact, high = (
        round_once((values * factor).clamp(-_LARGEST[form], _LARGEST[form]), dtype).to(torch.float32)
        for factor in (1 - error, 1, 1 + error)
    )
    return torch.maximum((exact - low).abs(), (high - exact).abs())


OPERATORS = (RmsNormFp8(), RmsNormFp8E5m2(), RmsNormFp8PerRow(), RmsNormFp8PerRowE5m2())
