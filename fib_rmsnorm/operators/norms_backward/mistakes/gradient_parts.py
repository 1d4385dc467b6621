"""The parts of the gradients' formulas: for some rows of dx, or for some columns of the sums over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from fib_rmsnorm.operators.norms.mistakes.rows import mean

# Sums over all rows take a float64 copy of no more elements at once.
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, eq=False)
class GradientRows:
    """Some rows of a call, for a dx of some columns; computed values are float64."""

    inputs: Mapping[str, Any]
    """The inputs of the whole call by their parts."""
    rows: torch.Tensor
    """The numbers of the rows."""
    columns: torch.Tensor
    """The numbers of the columns."""

    def of(self, part: str) -> torch.Tensor:
        """An input in these rows: dy, x and dnew_residual, [rows, hidden], or a statistic, [rows, 1]."""
        value: torch.Tensor = self.inputs[part][self.rows].to(torch.float64)
        return value if value.dim() > 1 else value.unsqueeze(1)

    @property
    def is_centered(self) -> bool:
        """Whether it is LayerNorm, which subtracts the mean."""
        return "mean" in self.inputs

    @property
    def has_residual(self) -> bool:
        """Whether a residual was added to x before the norm."""
        return "dnew_residual" in self.inputs

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
        weight: torch.Tensor = self.inputs["weight"].to(torch.float64)
        return self.of("dy") * weight

    def combine(self, scaled: torch.Tensor, normalized: torch.Tensor, correction: torch.Tensor) -> torch.Tensor:
        """The dx in the chosen columns, of dy * weight and the normalized x in all of them."""
        return self.of_norm(scaled, normalized, correction) + self.added

    def of_norm(self, scaled: torch.Tensor, normalized: torch.Tensor, correction: torch.Tensor) -> torch.Tensor:
        """The same without what is added to it."""
        centered = scaled - mean(scaled) if self.is_centered else scaled
        return ((centered - normalized * correction) * self.rstd)[:, self.columns]

    @cached_property
    def added(self) -> torch.Tensor:
        """What is added to the norm's dx in the chosen columns: the gradient of the new residual, or zeros."""
        return self.of("dnew_residual")[:, self.columns] if self.has_residual else self.rstd * 0


@dataclass(frozen=True, eq=False)
class GradientSums:
    """All rows of a call, for sums over them in some columns."""

    inputs: Mapping[str, Any]
    columns: torch.Tensor

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.inputs["x"])

    def blocks(self) -> Iterator[dict[str, torch.Tensor]]:
        """The dy and x of all rows in the chosen columns, and the statistics, [rows, 1], in float64, block by block."""
        rows = max(1, _BLOCK_ELEMENTS // max(1, len(self.columns)))
        for start in range(0, self.count, rows):
            block = {"dy": self.inputs["dy"], "x": self.inputs["x"]}
            found = {part: value[start : start + rows][:, self.columns].double() for part, value in block.items()}
            for part in ("mean", "rstd"):
                if part in self.inputs:
                    found[part] = self.inputs[part][start : start + rows, None].double()
            yield found

    def sum(self, terms: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> torch.Tensor:
        """The sum of terms over all rows, [1, columns]."""
        total = torch.zeros(1, len(self.columns), dtype=torch.float64, device=self.columns.device)
        for block in self.blocks():
            total += terms(block).sum(dim=0, keepdim=True)
        return total

    def weight(self) -> torch.Tensor:
        """The weight in the chosen columns."""
        weight: torch.Tensor = self.inputs["weight"][self.columns].to(torch.float64)
        return weight


def normalize(block: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The normalized x of a block of rows."""
    return (block["x"] - block["mean"] if "mean" in block else block["x"]) * block["rstd"]
