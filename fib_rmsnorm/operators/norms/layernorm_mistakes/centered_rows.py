"""The parts of LayerNorm's formula, for some rows of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import mean


@dataclass(frozen=True, eq=False)
class CenteredRows:
    """Some rows of a call's inputs, for outputs of some columns; computed values are float64."""

    inputs: Mapping[str, Any]
    """The inputs of the whole call by their parts: x, [batch, hidden], weight and perhaps bias, [hidden], and eps."""
    rows: torch.Tensor
    """The numbers of the rows."""
    columns: torch.Tensor
    """The numbers of the columns."""

    @property
    def x(self) -> torch.Tensor:
        """The x of the whole call, in its dtype."""
        x: torch.Tensor = self.inputs["x"]
        return x

    @property
    def eps(self) -> float:
        """The eps of the call."""
        return float(self.inputs["eps"])

    @cached_property
    def whole(self) -> torch.Tensor:
        """The rows' x in all columns, for statistics."""
        return self.x[self.rows].to(torch.float64)

    @cached_property
    def part(self) -> torch.Tensor:
        """The rows' x in the chosen columns."""
        return self.whole[:, self.columns]

    @cached_property
    def mean(self) -> torch.Tensor:
        """The mean of each row, [rows, 1]."""
        return mean(self.whole)

    @cached_property
    def variance(self) -> torch.Tensor:
        """The mean square of x less its mean, [rows, 1]."""
        return mean((self.whole - self.mean) ** 2)

    @cached_property
    def mean_square(self) -> torch.Tensor:
        """The mean square of x, [rows, 1]."""
        return mean(self.whole**2)

    @cached_property
    def centered(self) -> torch.Tensor:
        """The rows' x less its mean, in the chosen columns."""
        return self.part - self.mean

    @cached_property
    def weight(self) -> torch.Tensor:
        """The weight in the chosen columns."""
        return self._in_columns("weight")

    @cached_property
    def bias(self) -> torch.Tensor:
        """The bias in the chosen columns; zeros if there is none."""
        return self._in_columns("bias") if "bias" in self.inputs else torch.zeros_like(self.weight)

    def further(self, by: int) -> torch.Tensor:
        """The x in all columns of the rows `by` rows further, around the ends of the call."""
        return self.x[(self.rows + by) % len(self.x)].to(torch.float64)

    def _in_columns(self, part: str) -> torch.Tensor:
        value: torch.Tensor = self.inputs[part]
        return value[self.columns].to(torch.float64)


def normalize_rightly(rows: CenteredRows) -> torch.Tensor:
    """The rows as they are right before the weight."""
    return rows.centered * torch.rsqrt(rows.variance + rows.eps)


def apply_rightly(rows: CenteredRows, normalized: torch.Tensor) -> torch.Tensor:
    """The output of normalized rows."""
    return normalized * rows.weight + rows.bias
