"""RMSNorm without a weight, and RMSNorm with more after the weight, each with Definitions of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, find_rstd, float32_statistic_error, round_to
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, mended_by, rounded_products
from fib_rmsnorm.operators.norms.norm_definitions import PER_COLUMN, PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm
from fib_rmsnorm.operators.operator import Inputs


class RmsNormNoWeight(RmsNorm):
    """RMSNorm that only normalizes, as in `F.rms_norm(x, shape)`."""

    name = "rmsnorm_no_weight"
    convention = "none"
    equation = "out = x * rsqrt(mean(x^2) + eps)"
    arguments: ClassVar[tuple[str, ...]] = ("x", "eps")
    extreme_kinds: ClassVar[hard_rows.Kinds] = hard_rows.of("x", hard_rows.NON_FINITE_ROWS)
    start: ClassVar[tuple[str, ...]] = RmsNorm.start[:-1]
    end: ClassVar[tuple[str, ...]] = ("return (x_fp32 * torch.rsqrt(mean_square + eps)).to(x.dtype)",)
    title = "RMSNorm without a weight"
    does = "Normalize the rows of x, (batch, hidden)."
    expression = "x * rstd"
    steps: ClassVar[tuple[str, ...]] = ("square", "add", "times rstd")


class RmsNormBias(RmsNorm):
    """RMSNorm with a bias after the weight."""

    name = "rmsnorm_bias"
    equation = "out = x * rsqrt(mean(x^2) + eps) * weight + bias"
    arguments = ("x", "weight", "bias", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "bias": NormTensor(PER_COLUMN, "Learned shift of each hidden element.")
    }
    end = ("return (x_fp32 * rstd * weight.to(torch.float32) + bias.to(torch.float32)).to(x.dtype)",)
    title = "RMSNorm with a bias"
    does = "Normalize the rows of x, (batch, hidden), scale them by weight and shift them by bias, both (hidden,)."
    expression = "x * rstd * weight + bias"
    steps = (*RmsNorm.steps, "plus bias")

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterator[Wrong]:
        """Yield the mistakes with a bias, for x of this dtype."""
        yield Wrong("without the bias", "add the bias after the weight", lambda r: r.scaled)
        yield Wrong("with the bias subtracted", "add the bias", lambda r: r.scaled - r.parts["bias"])
        yield Wrong(
            "with the bias added before the weight",
            "compute x * rstd * weight + bias",
            lambda r: (r.normalized + r.parts["bias"]) * r.part_weight,
        )
        if dtype is not torch.float32:
            yield Wrong(
                f"with x * rstd * weight rounded to {dtype_name(dtype)} before the bias",
                "add the bias in float32 and round once",
                lambda r: round_to(dtype)(r.scaled) + r.parts["bias"],
            )

    def make_hard_columns(self, inputs: Inputs, order: tuple[str, ...]) -> dict[str, Any]:
        """Make the weight hard, and a bias with large elements, and some that cancel a constant row's."""
        weight, bias = super().make_hard_columns(inputs, order)["weight"], inputs["bias"].clone()
        bias[0::7] *= 16
        bias[3::7] = -weight[3::7]
        return {"weight": weight, "bias": bias}

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Add the bias."""
        bias: torch.Tensor = inputs["bias"]
        return scaled + bias

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """The error that float32 may have in either term, although nothing may be left of it in the sum."""
        bias: torch.Tensor = inputs["bias"]
        return (float32_statistic_error(scaled.shape[1]) * scaled.abs() + FLOAT32_EPS * bias.abs()).float()


class RmsNormRelu(RmsNorm):
    """RMSNorm, then ReLU."""

    name = "rmsnorm_relu"
    equation = "out = max(x * rsqrt(mean(x^2) + eps) * weight, 0)"
    # Maxima of GPUs pass over a NaN, torch's relu does not.
    extreme_kinds: ClassVar[hard_rows.Kinds] = hard_rows.of("x", {hard_rows.LIMITS: hard_rows.make_limits})
    end = ("return torch.relu(x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)",)
    title = "RMSNorm and ReLU"
    does = "Normalize the rows of x, (batch, hidden), scale them by weight, (hidden,), and cut them off below 0."
    expression = "relu(x * rstd * weight)"
    steps = (*RmsNorm.steps, "maximum with 0")

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterator[Wrong]:
        """Yield the mistakes with ReLU."""
        yield Wrong("without the ReLU", "compute max(x * rstd * weight, 0)", lambda r: r.scaled)
        yield Wrong(
            "with the ReLU before the weight",
            "apply the ReLU after the weight, which may be negative",
            lambda r: r.normalized.relu() * r.part_weight,
        )
        yield Wrong(
            "with the ReLU of x, before the mean square",
            "apply the ReLU last",
            lambda r: r.finish(r.part.relu() * find_rstd(r.whole.relu(), r.eps) * r.part_weight),
        )

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Set what is negative to 0."""
        return scaled.clamp(min=0)


_SMALLEST_SILU = 3e-37
"""More than the magnitude of silu where the exp of float32 overflows, at -88.73."""


class RmsNormSiluGate(RmsNorm):
    """RMSNorm times the SiLU of a gate, in this order: as Qwen3-Next does, and Mamba-2 with `norm_before_gate`."""

    name = "rmsnorm_silu_gate"
    equation = "out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate)"
    rounding = f"silu(g) = g / (1 + exp(-g)), {RmsNorm.rounding}"
    arguments = ("x", "gate", "weight", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "gate": NormTensor(PER_ELEMENT, "Gate of each element, contiguous by rows.")
    }
    says = "RMSNorm times silu(gate) in float32, cast to the dtype of x once at the end."
    end = (
        "gated = torch.nn.functional.silu(gate.to(torch.float32))",
        "return (x_fp32 * rstd * weight.to(torch.float32) * gated).to(x.dtype)",
    )
    title = "RMSNorm and SiLU gate"
    does = "Normalize the rows of x, scale them by weight, (hidden,), times silu(gate); x, gate: (batch, hidden)."
    expression = "x * rstd * weight * silu(gate)"
    kinds: ClassVar[hard_rows.Kinds] = {
        **hard_rows.of("x", hard_rows.HARD_ROWS),
        "gate scaled by 3000, x by 1e-6": lambda rows: {"x": rows["x"] * 1e-6, "gate": rows["gate"] * 3000},
        **hard_rows.of(
            "gate",
            {
                "gate scaled by 20 (silu is 0, or the gate)": lambda gate: gate * 20,
                "gate of 0": lambda gate: gate * 0,
                "gate of -100 (its exp overflows float32)": lambda gate: gate * 0 - 100,
            },
        ),
    }
    # SiLU of minus infinity is 0, and a NaN by most formulas: so infinities of the gate are positive.
    extreme_kinds: ClassVar[hard_rows.Kinds] = {
        **hard_rows.of("x", hard_rows.EXTREME_ROWS),
        **hard_rows.make_non_finite_kinds("gate", lambda gate: hard_rows.make_infinity(gate, math.inf)),
        hard_rows.LIMITS: lambda rows: {"x": hard_rows.make_limits(rows["x"]), "gate": rows["gate"] * 0 + 1},
    }
    steps = (*RmsNorm.steps, "exp(-gate)", "plus 1", "divide the gate", "times silu")

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterator[Wrong]:
        """Yield the mistakes with a SiLU gate, for x of this dtype."""
        yield from mended_by(
            "compute x * rstd * weight * silu(gate)",
            {
                "without the gate": lambda r: r.scaled,
                "with the gate itself instead of silu(gate)": lambda r: r.scaled * r.parts["gate"],
                "with sigmoid(gate) instead of silu(gate)": lambda r: r.scaled * r.parts["gate"].sigmoid(),
            },
        )
        yield Wrong("with x and gate swapped", "normalize x, and gate it with silu(gate)", _swap_gate)
        yield Wrong(
            "of x * silu(gate), as in Mamba-2 without norm_before_gate",
            "normalize x first and multiply by silu(gate) after it",
            _gate_first,
        )
        weighted = "multiply by the weight and silu(gate) in float32 and round once"
        yield from rounded_products(dtype, "Hugging Face's Qwen3-Next", weighted)

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """Multiply by silu(gate)."""
        gate: torch.Tensor = inputs["gate"]
        return scaled * gate * gate.sigmoid()

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """The error that float32's exp may have.

        Fast ones multiply by log2(e) first, so that their relative error grows with the gate. Above 88.7 they overflow,
        and silu is 0 instead of 2.6e-37 or less.
        """
        gate: torch.Tensor = inputs["gate"]
        out = self.finish(scaled, inputs).abs()
        return (FLOAT32_EPS * (4 + gate.abs()) * out + _SMALLEST_SILU * scaled.abs()).float()


def _swap_gate(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    normalized = gate[:, rows.columns] * find_rstd(gate, rows.eps)
    return normalized * rows.part_weight * torch.nn.functional.silu(rows.part)


def _gate_first(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    gated = rows.whole * torch.nn.functional.silu(gate)
    return gated[:, rows.columns] * find_rstd(gated, rows.eps) * rows.part_weight


OPERATORS = (RmsNormNoWeight(), RmsNormBias(), RmsNormRelu(), RmsNormSiluGate())
