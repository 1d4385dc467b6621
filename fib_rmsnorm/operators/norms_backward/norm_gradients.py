"""The gradients of a norm over rows in float64, with the errors that float32 may make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, float32_statistic_error, round_once, split_rows
from fib_rmsnorm.operators.operator import ExactOutput

if TYPE_CHECKING:
    import torch


class RowGradient:
    """The gradients of some rows, all in float64."""

    def __init__(self, inputs: Mapping[str, Any], rows: slice) -> None:
        """`inputs` are these rows of dy and x, and all of the weight and rstd.

        LayerNorm has all of the mean too, and add + RMSNorm these rows of dnew_residual.
        """
        self.dy: torch.Tensor = inputs["dy"]
        self.rstd: torch.Tensor = inputs["rstd"][rows, None]
        mean = inputs["mean"][rows, None] if "mean" in inputs else self.rstd * 0
        self.normalized: torch.Tensor = (inputs["x"] - mean) * self.rstd
        self.normalized_error: torch.Tensor = 4 * FLOAT32_EPS * (inputs["x"].abs() + mean.abs()) * self.rstd.abs()
        self.scaled = self.dy * inputs["weight"]
        self.correction = _mean(self.scaled * self.normalized)
        centered = self.scaled - _mean(self.scaled) if "mean" in inputs else self.scaled
        of_norm = (centered - self.normalized * self.correction) * self.rstd
        self.dx: torch.Tensor = of_norm + inputs.get("dnew_residual", 0)

    def bound_dx(self) -> torch.Tensor:
        """The error of dx in float32."""
        error, scaled, normalized = float32_statistic_error(self.dx.shape[1]), self.scaled.abs(), self.normalized.abs()
        terms = error * (scaled + _mean(scaled) + normalized * _mean(scaled * normalized))
        of_normalized = normalized * _mean(scaled * self.normalized_error)
        bound: torch.Tensor = (terms + of_normalized + self.normalized_error * self.correction.abs()) * self.rstd.abs()
        return bound

    def list_terms(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The terms of the sums over rows, and the errors that each term may have before it is added."""
        return {
            "dweight": (self.dy * self.normalized, self.dy.abs() * self.normalized_error),
            "dbias": (self.dy, self.dy * 0),
        }


def compute_gradients(inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> dict[str, ExactOutput]:
    """Compute the gradients in float64 and round them once to their dtypes, with a bound per element.

    The bound is `float32_statistic_error` of the magnitudes of the terms, as all gradients are sums. The normalized x,
    (x - mean) * rstd, may be off by a few units in the last place of x and the mean, not of their difference.
    """
    import torch

    x = inputs["x"]
    dx = torch.empty_like(x, dtype=dtypes["dx"])
    dx_bound = torch.empty_like(x, dtype=torch.bfloat16)  # the size of an error matters, not its digits
    sums = {part: x.new_zeros(x.shape[1], dtype=torch.float64) for part in dtypes if part != "dx"}
    bounds = {part: torch.zeros_like(each) for part, each in sums.items()}
    error = float32_statistic_error(x.shape[0])
    for block in split_rows(inputs):
        gradient = RowGradient(block.inputs, block.rows)
        dx[block.rows] = round_once(gradient.dx, dx.dtype)
        dx_bound[block.rows] = gradient.bound_dx().to(dx_bound.dtype)
        for part, (terms, errors) in gradient.list_terms().items():
            if part in sums:
                sums[part] += terms.sum(dim=0)
                bounds[part] += (error * terms.abs() + errors).sum(dim=0)
    found = {
        part: ExactOutput(round_once(each, dtypes[part]), bounds[part], common_error=error)
        for part, each in sums.items()
    }
    return {"dx": ExactOutput(dx, dx_bound, common_error=float32_statistic_error(x.shape[1])), **found}


def _mean(values: torch.Tensor) -> torch.Tensor:
    return values.mean(dim=-1, keepdim=True)
