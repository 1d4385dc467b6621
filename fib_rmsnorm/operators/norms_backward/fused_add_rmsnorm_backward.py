"""The backward pass of add + RMSNorm: what comes through the norm, plus the gradient of the new residual.

x and the residual have the same gradient, because only their sum is used. So there is one output, `dx`, for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.norm_definitions import PER_ELEMENT, NormTensor
from fib_rmsnorm.operators.norms_backward.hard_pairs import KINDS, ZERO_DY, Kind
from fib_rmsnorm.operators.norms_backward.norm_backward import TENSORS, RmsNormBackward
from fib_rmsnorm.operators.norms_backward.norm_gradients import compute_gradients
from fib_rmsnorm.operators.operator import HardCase

if TYPE_CHECKING:
    import torch

_LARGE = 5000
"""By what dnew_residual is multiplied: most of it is then above 1,000, and all within float16."""
_CANCELS = "dnew_residual near minus the norm's part (dx cancels)"


class FusedAddRmsNormBackward(RmsNormBackward):
    """The gradients of add + RMSNorm: computed in float32 and rounded once."""

    name = "fused_add_rmsnorm_backward"
    norm = "add + RMSNorm"
    formula = (
        "dx = (w - n * mean(w * n)) * rstd + dnew_residual, dweight = sum(dy * n) over rows, where n = x * rstd, "
        "w = dy * weight and x is the saved sum, computed in float32 and cast once at the end; dx is the gradient of "
        "the residual too."
    )
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        **TENSORS,
        "x": NormTensor(PER_ELEMENT, "The sum that was normalized, as the forward pass kept it: its new residual."),
        "dx": NormTensor(PER_ELEMENT, "Gradient of x and of the residual, of which only the sum is used."),
    }
    arguments = ("dy", "dnew_residual", "x", "weight", "rstd")
    kinds: ClassVar[Mapping[str, Kind]] = {**KINDS, _CANCELS: lambda x, dy: (x, dy)}
    steps = (10, 1)
    reference = '''\
import torch


def run(dy, dnew_residual, x, weight, rstd):
    """The gradients of add + RMSNorm in float32, each cast once at the end; x is the sum, rstd the forward pass's."""
    normalized = x.to(torch.float32) * rstd[:, None]
    scaled = dy.to(torch.float32) * weight.to(torch.float32)
    dx = (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight = (dy.to(torch.float32) * normalized).sum(dim=0)
    return (dx + dnew_residual.to(torch.float32)).to(x.dtype), dweight.to(weight.dtype)
'''

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make rows of every hard kind in turn; dnew_residual cancels the norm's part, or is large where that is 0."""
        made = super().make_hard_case(inputs, constants, index, seed)
        if _CANCELS not in made.row_kinds:
            return made
        residual: torch.Tensor = inputs["dnew_residual"].clone()
        residual[made.row_kinds.index(ZERO_DY) :: len(made.row_kinds)] *= _LARGE
        rows = slice(made.row_kinds.index(_CANCELS), None, len(made.row_kinds))
        chosen = {part: made.inputs[part][rows] for part in ("dy", "x", "rstd")}
        of_norm = compute_gradients({**chosen, "weight": made.inputs["weight"]}, {"dx": residual.dtype})["dx"]
        residual[rows] = -of_norm.values
        return replace(made, inputs={**made.inputs, "dnew_residual": residual})


OPERATORS = (FusedAddRmsNormBackward(),)
