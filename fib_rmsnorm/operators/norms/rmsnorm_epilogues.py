"""RMSNorm without a weight, and RMSNorm with more after the weight, each with Definitions of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, float32_statistic_error
from fib_rmsnorm.operators.norms.hard_rows import (
    EXTREME_ROWS,
    HARD_ROWS,
    LIMITS,
    NON_FINITE_ROWS,
    Kinds,
    make_non_finite_kinds,
    make_positive_infinity,
)
from fib_rmsnorm.operators.norms.norm_definitions import DTYPE, HIDDEN, PER_COLUMN, PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.rmsnorm import EPS, OUT, SCALE, RmsNorm, X

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.operators.norms.mistakes.rows import Wrong


_LARGE_GATE = "gate scaled by 3000, x by 1e-6"


class RmsNormNoWeight(RmsNorm):
    """RMSNorm that only normalizes, as in `F.rms_norm(x, shape)`."""

    name = "rmsnorm_no_weight"
    formula = "out = x * rsqrt(mean(x^2) + eps), computed in float32 and cast once at the end."
    options = (HIDDEN, DTYPE)
    tensors: ClassVar[Mapping[str, NormTensor]] = {"x": X, "eps": EPS, "out": OUT}
    arguments = ("x", "eps")
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {"x": NON_FINITE_ROWS}
    reference = '''\
import torch


def run(x, eps):
    """RMSNorm without a weight in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    return (x_fp32 * torch.rsqrt(mean_square + eps)).to(x.dtype)
'''
    kernel = NormKernel(
        title="RMSNorm without a weight",
        formula="out = x * rsqrt(mean(x^2) + eps)",
        returns="Return x, (batch, hidden), with each row divided by its root mean square.",
        writes="Write the normalized rows of x, (batch, hidden), to out, (batch, hidden).",
        epilogues={
            "python": "return (x_fp32 * rstd).to(x.dtype)",
            "triton": "tl.store(out_ptr + cols, (x * rstd).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)",
            "cpp": "out[col] = static_cast<Element>(static_cast<float>(x[col]) * rstd);",
        },
    )
    steps = ("square", "add", "times rstd")

    def scale(self, normalized: torch.Tensor, inputs: Mapping[str, Any], dtype: torch.dtype) -> torch.Tensor:
        """Leave the rows as they are."""
        return normalized

    def make_hard_columns(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Rows share nothing."""
        return {}


class RmsNormBias(RmsNorm):
    """RMSNorm with a bias after the weight."""

    name = "rmsnorm_bias"
    formula = "out = x * rsqrt(mean(x^2) + eps) * weight + bias, computed in float32 and cast once at the end."
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": X,
        "weight": SCALE,
        "bias": NormTensor(PER_COLUMN, "Learned shift of each hidden element."),
        "eps": EPS,
        "out": OUT,
    }
    arguments = ("x", "weight", "bias", "eps")
    reference = '''\
import torch


def run(x, weight, bias, eps):
    """RMSNorm with a bias in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.to(torch.float32) + bias.to(torch.float32)).to(x.dtype)
'''
    kernel = NormKernel(
        title="RMSNorm with a bias",
        formula="out = x * rsqrt(mean(x^2) + eps) * weight + bias",
        returns=(
            "Return x, (batch, hidden), with each row normalized, scaled by weight and shifted by bias, both (hidden,)."
        ),
        writes="Write the rows of x normalized, scaled by weight and shifted by bias to out; x, out: (batch, hidden).",
        epilogues={
            "python": "return (x_fp32 * rstd * weight.float() + bias.float()).to(x.dtype)",
            "triton": """\
tl.store(out_ptr + cols, (x * rstd * weight + bias).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": """\
const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
out[col] = static_cast<Element>(scaled + static_cast<float>(bias[col]));""",
        },
    )
    steps = (*RmsNorm.steps, "plus bias")

    def make_hard_columns(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Make the weight hard, and a bias with large elements, and some that cancel a constant row's."""
        weight, bias = super().make_hard_columns(inputs)["weight"], inputs["bias"].clone()
        bias[0::7] *= 16
        bias[3::7] = -weight[3::7]
        return {"weight": weight, "bias": bias}

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Add the bias."""
        bias: torch.Tensor = inputs["bias"]
        return scaled + bias

    def bound_error(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor | None:
        """What float32 may be off by in either term, of which nothing may be left in the sum."""
        bias: torch.Tensor = inputs["bias"]
        return float32_statistic_error(scaled.shape[1]) * scaled.abs() + FLOAT32_EPS * bias.abs()

    def wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes with a bias."""
        from fib_rmsnorm.operators.norms.mistakes.wrong_epilogues import wrong_biases

        return wrong_biases(dtype)


class RmsNormRelu(RmsNorm):
    """RMSNorm, then ReLU."""

    name = "rmsnorm_relu"
    formula = "out = max(x * rsqrt(mean(x^2) + eps) * weight, 0), computed in float32 and cast once at the end."
    # Maxima of GPUs pass over a NaN, torch's relu does not.
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {"x": {LIMITS: EXTREME_ROWS[LIMITS]}}
    reference = '''\
import torch


def run(x, weight, eps):
    """RMSNorm and ReLU in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return torch.relu(x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)
'''
    kernel = NormKernel(
        title="RMSNorm and ReLU",
        formula="out = max(x * rsqrt(mean(x^2) + eps) * weight, 0)",
        returns=(
            "Return x, (batch, hidden), with each row normalized, scaled by weight, (hidden,), and cut off below 0."
        ),
        writes=(
            "Write max(row, 0) of the normalized rows of x, scaled by weight, (hidden,), to out; x, out: (batch, "
            "hidden)."
        ),
        epilogues={
            "python": "return torch.relu(x_fp32 * rstd * weight.float()).to(x.dtype)",
            "triton": """\
out = tl.maximum(x * rstd * weight, 0.0)
tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": """\
const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
out[col] = static_cast<Element>(std::fmax(scaled, 0.0f));""",
            "cuda": """\
const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
out[col] = static_cast<Element>(fmaxf(scaled, 0.0f));""",
        },
    )
    steps = (*RmsNorm.steps, "maximum with 0")

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Set what is negative to 0."""
        return scaled.clamp(min=0)

    def wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes with ReLU."""
        from fib_rmsnorm.operators.norms.mistakes.wrong_epilogues import wrong_relus

        return wrong_relus()


class RmsNormSiluGate(RmsNorm):
    """RMSNorm times the SiLU of a gate, in this order: as Qwen3-Next does, and Mamba-2 with `norm_before_gate`."""

    name = "rmsnorm_silu_gate"
    formula = (
        "out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate), silu(g) = g / (1 + exp(-g)), computed in float32 and "
        "cast once at the end."
    )
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": X,
        "gate": NormTensor(PER_ELEMENT, "Gate of each element, contiguous by rows."),
        "weight": SCALE,
        "eps": EPS,
        "out": OUT,
    }
    arguments = ("x", "gate", "weight", "eps")
    reference = '''\
import torch


def run(x, gate, weight, eps):
    """RMSNorm times silu(gate) in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    gated = torch.nn.functional.silu(gate.to(torch.float32))
    return (x_fp32 * rstd * weight.to(torch.float32) * gated).to(x.dtype)
'''
    kernel = NormKernel(
        title="RMSNorm and SiLU gate",
        formula="out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate)",
        returns=(
            "Return x with each row normalized, scaled by weight, (hidden,), times silu(gate); x, gate: (batch, "
            "hidden)."
        ),
        writes="Write the rows of x, normalized and scaled by weight, times silu(gate) to out: all (batch, hidden).",
        epilogues={
            "python": "return (x_fp32 * rstd * weight.float() * torch.nn.functional.silu(gate.float())).to(x.dtype)",
            "triton": """\
out = x * rstd * weight * gate * tl.sigmoid(gate)
tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": """\
const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
const float g = static_cast<float>(gate[col]);
out[col] = static_cast<Element>(scaled * g / (1 + std::exp(-g)));  // silu(g) = g * sigmoid(g)""",
            "cuda": """\
const float scaled = static_cast<float>(x[col]) * rstd * static_cast<float>(weight[col]);
const float g = static_cast<float>(gate[col]);
out[col] = static_cast<Element>(scaled * g / (1 + expf(-g)));  // silu(g) = g * sigmoid(g)""",
        },
    )
    row_kinds: ClassVar[Mapping[str, Kinds]] = {
        "x": {**HARD_ROWS, _LARGE_GATE: lambda x: x * 1e-6},
        "gate": {
            _LARGE_GATE: lambda gate: gate * 3000,
            "gate scaled by 20 (silu is 0, or the gate)": lambda gate: gate * 20,
            "gate of 0": lambda gate: gate * 0,
            "gate of -100 (its exp overflows float32)": lambda gate: gate * 0 - 100,
        },
    }
    # SiLU of minus infinity is 0, and a NaN by most formulas: so infinities of the gate are positive.
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {
        "x": EXTREME_ROWS,
        "gate": {
            **make_non_finite_kinds("gate", make_positive_infinity),
            LIMITS: lambda gate: gate * 0 + 1,
        },
    }
    steps = (*RmsNorm.steps, "exp(-gate)", "plus 1", "divide the gate", "times silu")

    def finish(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Multiply by silu(gate)."""
        gate: torch.Tensor = inputs["gate"]
        return scaled * gate * gate.sigmoid()

    def bound_error(self, scaled: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor | None:
        """What float32's exp may be off by.

        Fast ones multiply by log2(e) first, so that their relative error grows with the gate. Above 88.7 they overflow,
        and silu is 0 instead of 2.6e-37 or less.
        """
        gate: torch.Tensor = inputs["gate"]
        out = self.finish(scaled, inputs).abs()
        return FLOAT32_EPS * (4 + gate.abs()) * out + _SMALLEST_SILU * scaled.abs()

    def wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes with a gate."""
        from fib_rmsnorm.operators.norms.mistakes.wrong_epilogues import wrong_gates

        return wrong_gates(dtype)


_SMALLEST_SILU = 3e-37
"""More than the magnitude of silu where the exp of float32 overflows, at -88.73."""


OPERATORS = (RmsNormNoWeight(), RmsNormBias(), RmsNormRelu(), RmsNormSiluGate())
