"""The gradients of norms over rows in float64, with the errors that float32 may make, and usual mistakes in dx."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, float32_statistic_error
from fib_rmsnorm.operators.norms.mistakes.rows import Wrong, mean, mended_by
from fib_rmsnorm.operators.operator import Inputs


@dataclass(frozen=True, eq=False)
class GradientRows:
    """Some rows of a call, for a dx of some columns; computed values are float64."""

    inputs: Inputs
    """The inputs of the whole call by their parts."""
    rows: torch.Tensor | slice
    """The numbers of the rows."""
    columns: torch.Tensor | EllipsisType = ...
    """The numbers of the columns, or all."""

    def of(self, part: str) -> torch.Tensor:
        """An input in these rows: dy, x and dnew_residual, [rows, hidden], or a statistic, [rows, 1]."""
        value: torch.Tensor = self.inputs[part][self.rows].double()
        return value if value.dim() > 1 else value.unsqueeze(1)

    @property
    def is_centered(self) -> bool:
        """Whether it is LayerNorm, which subtracts the mean."""
        return "mean" in self.inputs

    @cached_property
    def rstd(self) -> torch.Tensor:
        """The reciprocal root of each row, [rows, 1]."""
        return self.of("rstd")

    @cached_property
    def normalized(self) -> torch.Tensor:
        """The normalized x in all columns."""
        return (self.of("x") - self.of("mean") if self.is_centered else self.of("x")) * self.rstd

    @cached_property
    def scaled(self) -> torch.Tensor:
        """The rows of dy * weight in all columns."""
        weight: torch.Tensor = self.inputs["weight"].double()
        return self.of("dy") * weight

    @cached_property
    def correction(self) -> torch.Tensor:
        """By what the normalized x is multiplied, [rows, 1]."""
        return mean(self.scaled * self.normalized)

    def compute_dx(self, scaled: torch.Tensor | None = None, correction: torch.Tensor | None = None) -> torch.Tensor:
        """The gradient of x in the chosen columns; a wrong one of another `scaled`, in all columns, or `correction`."""
        return self.of_norm(scaled, correction) + self.added

    def of_norm(self, scaled: torch.Tensor | None = None, correction: torch.Tensor | None = None) -> torch.Tensor:
        """The same without what is added to it."""
        scaled = self.scaled if scaled is None else scaled
        centered = scaled - mean(scaled) if self.is_centered else scaled
        correction = self.correction if correction is None else correction
        return ((centered - self.normalized * correction) * self.rstd)[:, self.columns]

    @cached_property
    def added(self) -> torch.Tensor:
        """The addend of the norm's dx in the chosen columns: the gradient of the new residual, or zeros."""
        has_residual = "dnew_residual" in self.inputs
        return self.of("dnew_residual")[:, self.columns] if has_residual else self.rstd.new_zeros(())

    @cached_property
    def normalized_error(self) -> torch.Tensor:
        """The error of the normalized x in float32: a few units in the last place of x and the mean, each."""
        magnitude = self.of("x").abs() + (self.of("mean").abs() if self.is_centered else 0)
        return 4 * FLOAT32_EPS * magnitude * self.rstd.abs()

    def bound_dx(self) -> torch.Tensor:
        """The error of dx in float32, in all columns."""
        scaled, normalized = self.scaled.abs(), self.normalized.abs()
        error = float32_statistic_error(scaled.shape[1])
        terms = error * (scaled + mean(scaled) + normalized * mean(scaled * normalized))
        of_normalized = normalized * mean(scaled * self.normalized_error)
        return (terms + of_normalized + self.normalized_error * self.correction.abs()) * self.rstd.abs()

    def list_terms(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The terms of the sums over rows, and the errors that each term may have before it is added."""
        dy = self.of("dy")
        return {"dweight": (dy * self.normalized, dy.abs() * self.normalized_error), "dbias": (dy, dy * 0)}


def list_wrong_dx(rows: GradientRows) -> Iterator[Wrong]:
    """The usual wrong formulas of dx; each function makes dx of its rows."""
    right = "use (w - mean(w) - n * mean(w * n)) * rstd" if rows.is_centered else "use (w - n * mean(w * n)) * rstd"
    has_residual = "dnew_residual" in rows.inputs
    right += " + dnew_residual" if has_residual else ""
    right += ", with w = dy * weight and n = the normalized x"
    wrong = {
        "of a constant rstd, w * rstd alone": lambda r: (r.scaled * r.rstd)[:, r.columns] + r.added,
        "with the sum of w * n instead of its mean": lambda r: r.compute_dx(
            correction=(r.scaled * r.normalized).sum(-1, keepdim=True)
        ),
        "without the weight": lambda r: r.compute_dx(r.of("dy"), mean(r.of("dy") * r.normalized)),
        "with dy instead of dy * weight in the mean": lambda r: r.compute_dx(
            correction=mean(r.of("dy") * r.normalized)
        ),
        "with x instead of the normalized x in the mean": lambda r: r.compute_dx(correction=mean(r.scaled * r.of("x"))),
        "without the last factor rstd": lambda r: r.of_norm() / r.rstd + r.added,
    }
    if has_residual:
        wrong["without dnew_residual"] = GradientRows.of_norm
        wrong["with dnew_residual added to dy, before the norm's backward pass"] = _add_to_dy
    if rows.is_centered:
        wrong["without mean(w) subtracted, as RMSNorm's"] = lambda r: (
            (r.scaled - r.normalized * r.correction) * r.rstd
        )[:, r.columns]
    yield from mended_by(right, wrong)


def _add_to_dy(rows: GradientRows) -> torch.Tensor:
    scaled = (rows.of("dy") + rows.of("dnew_residual")) * rows.inputs["weight"].double()
    return rows.of_norm(scaled, mean(scaled * rows.normalized))
