"""RMSNorm, quantised to float8 with a scale: one for all, or one for each row, which is a second output.

`out * out_scale` is the norm: it is divided by the scale, limited to the largest number of the format, and rounded to
nearest, ties to even. Nothing is rounded before that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, round_once
from fib_rmsnorm.operators.norms.hard_rows import NAN, Kinds, make_nan, of
from fib_rmsnorm.operators.norms.mistakes.rows import Epilogue, Rows, Wrong, mended_by, rounded_products
from fib_rmsnorm.operators.norms.norm_definitions import NUMBER_OR_ONE, PER_ELEMENT, PER_ROW, NormTensor
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm
from fib_rmsnorm.operators.operator import ExactOutput, HardCase, Inputs, Scalar

_USUAL_SCALE = 0.05
_E4M3 = {"out": "float8_e4m3fn", "out_scale": "float32"}
_E5M2 = {"out": "float8_e5m2", "out_scale": "float32"}
_SMALLEST_SCALE = 512.0
"""A row's scale is at least 1 / (the largest number * this), so that a row of zeros has one: vLLM's convention."""

_SCALED = "scaled = x_fp32 * rstd * weight.to(torch.float32)"
_IN_FLOAT32 = "compute in float32 until the conversion to float8"


def _in_e5m2(text: str) -> str:
    """The formula or reference of a norm in float8_e4m3fn, of the same in float8_e5m2."""
    return text.replace("448", "57344").replace("float8_e4m3fn", "float8_e5m2")


class _Quantised(RmsNorm):
    """The common base of both: `out` has a format of 8 bits."""

    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "out": NormTensor(PER_ELEMENT, "Normalized and scaled activations, divided by out_scale.")
    }
    dtypes: ClassVar[Mapping[str, str]] = _E4M3
    extreme_kinds: ClassVar[Kinds] = {}  # limits of GPUs pass over a NaN, torch's do not
    is_strict = True

    @property
    def largest(self) -> float:
        """The largest number of the format."""
        return float(torch.finfo(getattr(torch, self.dtypes["out"])).max)

    def quantise(self, scaled: torch.Tensor, scale: torch.Tensor | float) -> torch.Tensor:
        """Divide by the scale, and limit."""
        return (scaled / scale).clamp(-self.largest, self.largest)

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """A step where float32's errors reach a tie, and nothing elsewhere."""
        values, dtype = self.finish(scaled, inputs), getattr(torch, self.dtypes["out"])
        error = 2 * float32_statistic_error(scaled.shape[1])
        low, exact, high = (
            round_once((values * factor).clamp(-self.largest, self.largest), dtype).to(torch.float32)
            for factor in (1 - error, 1, 1 + error)
        )
        return torch.maximum((exact - low).abs(), (high - exact).abs())


class RmsNormFp8(_Quantised):
    """RMSNorm, divided by a scale that is an input, in float8_e4m3fn: as FlashInfer's `rmsnorm_quant`."""

    name = "rmsnorm_fp8"
    equation = "out = x * rsqrt(mean(x^2) + eps) * weight / out_scale"
    rounding = "computed in float32, limited to 448 and cast to float8_e4m3fn once at the end."
    arguments: ClassVar[tuple[str, ...]] = ("x", "weight", "out_scale", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "out_scale": NormTensor(NUMBER_OR_ONE, "What a step of out stands for: the norm is out * out_scale.")
    }
    says = "RMSNorm in float32, divided by out_scale, limited and cast to float8_e4m3fn once at the end."
    end: ClassVar[tuple[str, ...]] = (
        _SCALED,
        "return (scaled / out_scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)",
    )
    scalars: ClassVar[Mapping[str, Scalar]] = {**RmsNorm.scalars, "out_scale": Scalar(_USUAL_SCALE, least=1e-12)}
    derived = ("out_scale",)
    steps = (*RmsNorm.steps, "divide by the scale", "two limits")

    def derive_inputs(self, inputs: Inputs) -> Mapping[str, torch.Tensor]:
        """Make a scale that is a tensor of one element, which at random could be negative."""
        scale = inputs["out_scale"]
        return {"out_scale": scale * 0 + _USUAL_SCALE} if hasattr(scale, "dim") else {}

    def make_hard_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make hard rows, with another scale than the Workload's."""
        made = super().make_hard_case(inputs, constants, index, seed)
        # In turn by more, and by so little that outputs saturate.
        least, most = (40.0, 400.0) if index % 2 == 0 else (1 / 2000, 1 / 20)
        factor = float(least * (most / least) ** random.Random(f"{seed} scale {index}").random())
        return replace(made, inputs={**made.inputs, "out_scale": inputs["out_scale"] * factor})

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Divide by the scale, and limit."""
        return self.quantise(scaled, inputs["out_scale"])

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterator[Wrong]:
        """Yield the mistakes with a scale that is an input, for x of this dtype."""
        yield from mended_by(
            "divide by out_scale",
            {
                "without the scale": lambda r: self.quantise(r.scaled, 1),
                "multiplied by the scale instead of divided by it": lambda r: self.quantise(
                    r.scaled * r.parts["out_scale"], 1
                ),
            },
        )
        yield from rounded_products(dtype, "vLLM", _IN_FLOAT32)


class RmsNormFp8E5m2(RmsNormFp8):
    """The same in float8_e5m2."""

    name = "rmsnorm_fp8_e5m2"
    rounding, says = map(_in_e5m2, (RmsNormFp8.rounding, RmsNormFp8.says))
    end = tuple(map(_in_e5m2, RmsNormFp8.end))
    dtypes = _E5M2


class RmsNormFp8PerRow(_Quantised):
    """RMSNorm, divided by a scale of each row, which is a second output, in float8_e4m3fn."""

    name = "rmsnorm_fp8_per_row"
    equation = (
        "y = x * rsqrt(mean(x^2) + eps) * weight, out_scale = max(max|y| / 448, 1 / (448 * 512)) of each row, "
        "out = y / out_scale"
    )
    rounding = "computed in float32 and cast to float8_e4m3fn once at the end."
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "out_scale": NormTensor(PER_ROW, "What a step of each row stands for: the norm is out * out_scale.")
    }
    outputs: ClassVar[tuple[str, ...]] = ("out", "out_scale")
    says = (
        "RMSNorm in float32; each row is divided by a scale, which is returned too, and cast to float8_e4m3fn once at "
        "the end."
    )
    end: ClassVar[tuple[str, ...]] = (
        _SCALED,
        "out_scale = (scaled.abs().amax(dim=-1) / 448.0).clamp(min=1 / (448.0 * 512.0))",
        "return (scaled / out_scale[:, None]).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), out_scale",
    )
    steps = (*RmsNorm.steps, "magnitude", "maximum", "divide by the scale", "two limits")
    needs_whole_rows = True
    # Every element of a row with a NaN is one, which no scale of it hides; of an infinity, maxima of GPUs make another.
    extreme_kinds: ClassVar[Kinds] = of("x", {NAN: make_nan})

    @property
    def smallest_scale(self) -> float:
        """The scale of a row of zeros."""
        return 1 / (self.largest * _SMALLEST_SCALE)

    def scale_rows(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """The scale of each row, [rows, 1], of all its columns."""
        return (scaled.abs().amax(dim=-1, keepdim=True) / self.largest).clamp(min=self.smallest_scale)

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Divide by the rows' scales, and limit."""
        return self.quantise(scaled, self.scale_rows(scaled, inputs))

    def more_outputs(self, scaled: torch.Tensor, inputs: Inputs) -> Mapping[str, ExactOutput]:
        """The rows' scales. That of a row of NaN is one, or the smallest: maxima of GPUs pass over a NaN."""
        scales = self.scale_rows(scaled, inputs).squeeze(1).float()
        numbers = scales.nan_to_num(nan=self.smallest_scale)
        error = float32_statistic_error(scaled.shape[1])
        return {"out_scale": ExactOutput(scales, error * numbers, common_error=error, alternative=numbers)}

    def describe_epilogue(self, output: str, dtype: torch.dtype) -> tuple[Epilogue, tuple[Wrong, ...]]:
        """The scales, or the rows that are divided by them."""
        is_scale = output == "out_scale"
        wrong = [
            (
                "with max(y) instead of max|y|",
                "take the magnitude",
                lambda r: self.scale_rows(r.scaled.clamp(min=0), {}),
            ),
            (
                "with a scale that has no lower limit",
                f"let it be at least 1 / ({self.largest:g} * 512)",
                lambda r: r.scaled.abs().amax(dim=-1, keepdim=True) / self.largest,
            ),
            (
                "with the reciprocal of the scale",
                "return max|y| over the largest number, not its reciprocal",
                lambda r: 1 / self.scale_rows(r.scaled, {}),
            ),
            (
                "with the largest x * rstd, before the weight",
                "take the largest magnitude after the weight",
                lambda r: self.scale_rows(r.normalized, {}),
            ),
        ]

        def divide_by(scales: Callable[[Rows], torch.Tensor]) -> Callable[[Rows], torch.Tensor]:
            return scales if is_scale else lambda r: self.quantise(r.scaled, scales(r))

        named = (Wrong(what, fix, divide_by(scales)) for what, fix, scales in wrong)
        return (self.scale_rows if is_scale else self.finish), (*named, *rounded_products(dtype, "vLLM", _IN_FLOAT32))


class RmsNormFp8PerRowE5m2(RmsNormFp8PerRow):
    """The same in float8_e5m2."""

    name = "rmsnorm_fp8_per_row_e5m2"
    equation, rounding, says = map(
        _in_e5m2, (RmsNormFp8PerRow.equation, RmsNormFp8PerRow.rounding, RmsNormFp8PerRow.says)
    )
    end = tuple(map(_in_e5m2, RmsNormFp8PerRow.end))
    dtypes = _E5M2


OPERATORS = (RmsNormFp8(), RmsNormFp8E5m2(), RmsNormFp8PerRow(), RmsNormFp8PerRowE5m2())
