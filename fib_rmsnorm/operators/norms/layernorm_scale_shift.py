"""LayerNorm with a scale and a shift of each row or each sequence: adaLN (Peebles and Xie 2023, arXiv:2212.09748)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.float64_rows import find_rstd, round_to
from fib_rmsnorm.operators.norms.layernorm import LayerNormNoWeight, LayerNormOperator
from fib_rmsnorm.operators.norms.mistakes.rows import Wrong, dtype_name, mended_by
from fib_rmsnorm.operators.norms.norm_definitions import PER_ELEMENT, PER_GROUP, NormTensor
from fib_rmsnorm.operators.operator import Inputs


class LayerNormScaleShift(LayerNormNoWeight):
    """LayerNorm, then a scale and a shift of each row or of each sequence, as in diffusion transformers (adaLN)."""

    name = "layernorm_scale_shift"
    equation = "out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * (1 + scale) + shift"
    arguments = ("x", "scale", "shift", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "scale": NormTensor(PER_GROUP, "Scale of each element, less 1."),
        "shift": NormTensor(PER_GROUP, "Shift of each element, added last."),
        "out": NormTensor(PER_ELEMENT, "Activations, normalized, scaled and shifted."),
    }
    called: ClassVar[Mapping[str, str]] = {"scale": "scale|gamma", "shift": "shift|beta"}
    says = "LayerNorm with a scale and a shift in float32, cast to the dtype of x once at the end."
    end = (
        "scaled = centered * rstd * (1.0 + scale.to(torch.float32))",
        "return (scaled + shift.to(torch.float32)).to(x.dtype)",
    )
    title = "Adaptive LayerNorm"
    does = "Normalize the rows of x, multiply them by 1 + scale and add shift; all are (batch, hidden)."
    expression = "shift + (1 + scale) * rstd * x"  # long lines of this order break as formatters would
    short_equation = "out = (x - mean) * rsqrt(var + eps) * (1 + scale) + shift"
    kinds: ClassVar[hard_rows.Kinds] = {
        "half of the row cancels with the shift": lambda rows: {"shift": _cancel_half(rows)},
        "scale and shift of 100": lambda rows: {part: rows[part] * 100 for part in ("scale", "shift")},
        **LayerNormOperator.kinds,
    }
    extreme_kinds: ClassVar[hard_rows.Kinds] = {
        **LayerNormNoWeight.extreme_kinds,
        hard_rows.LIMITS: lambda rows: {
            "x": hard_rows.make_limits(rows["x"]),
            "scale": hard_rows.limit_weight(rows["scale"][0], rows["x"].dtype).expand_as(rows["scale"]) - 1,
        },
    }
    special_kinds: ClassVar[hard_rows.Kinds] = {
        **LayerNormOperator.special_kinds,
        "scale and shift of zeros, ones and minus ones": lambda rows: {
            part: rows[part].round().clamp(-1, 1) for part in ("scale", "shift")
        },
    }
    steps = (*LayerNormNoWeight.steps, "1 + scale", "times that", "plus shift")

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Scale and shift the normalized rows."""
        shifted: torch.Tensor = scaled * (1 + inputs["scale"]) + inputs["shift"]
        return shifted

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """As if they were a weight and a bias."""
        return super().bound_error(scaled, {**inputs, "weight": 1 + inputs["scale"], "bias": inputs["shift"]})

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterator[Wrong]:
        """Yield the mistakes with scale and shift, for x of this dtype."""
        yield from mended_by(
            "compute x * rstd * (1 + scale) + shift",
            {
                "without the shift": lambda r: r.normalized * (1 + r.parts["scale"]),
                "with scale instead of 1 + scale": lambda r: r.normalized * r.parts["scale"] + r.parts["shift"],
                "with scale and shift swapped": lambda r: r.normalized * (1 + r.parts["shift"]) + r.parts["scale"],
                "without scale and shift": lambda r: r.normalized,
            },
        )
        if dtype is not torch.float32:
            narrow, fix = round_to(dtype), "scale and shift in float32 and round once"
            name = dtype_name(dtype)
            yield Wrong(f"with x * rstd rounded to {name} first", fix, lambda r: r.finish(narrow(r.normalized)))
            yield Wrong(
                f"with x * rstd and 1 + scale and their product rounded to {name}, as by operators of torch",
                fix,
                lambda r: narrow(narrow(r.normalized) * narrow(1 + r.parts["scale"])) + r.parts["shift"],
            )


def _cancel_half(rows: hard_rows.Rows) -> torch.Tensor:
    """A shift that takes away every second element of the scaled rows, but for the eps."""
    x, shift = rows["x"].double(), rows["shift"].clone()
    centered = x - x.mean(dim=-1, keepdim=True)
    scaled = centered * find_rstd(centered, hard_rows.USUAL_EPS) * (1 + rows["scale"].double())
    shift[:, 1::2] = -scaled[:, 1::2].to(shift.dtype)
    return shift


OPERATORS = (LayerNormScaleShift(),)
