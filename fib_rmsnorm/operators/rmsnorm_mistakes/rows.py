"""The parts of RMSNorm's formula, for some rows of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from fib_rmsnorm.operators.rounding import round_once


@dataclass(frozen=True)
class Rows:
    """Some rows of a call's inputs, for outputs of some columns; all values are float64."""

    x: torch.Tensor
    """The x of the whole call, [batch, hidden], in its dtype."""
    weight: torch.Tensor
    eps: float
    rows: torch.Tensor
    """The numbers of the rows."""
    columns: torch.Tensor
    """The numbers of the columns."""
    output_dtype: torch.dtype | None = None
    """The dtype of the output, if it is not that of x."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the output."""
        return self.output_dtype or self.x.dtype

    @cached_property
    def whole(self) -> torch.Tensor:
        """The rows' x in all columns, for statistics."""
        return self.x[self.rows].to(torch.float64)

    @cached_property
    def squares(self) -> torch.Tensor:
        """The squares of `whole`, without rounding."""
        return self.whole**2

    @cached_property
    def mean_square(self) -> torch.Tensor:
        """The mean square of each row, [rows, 1]."""
        return mean(self.squares)

    @cached_property
    def part(self) -> torch.Tensor:
        """The rows' x in the chosen columns."""
        return self.whole[:, self.columns]

    @cached_property
    def part_weight(self) -> torch.Tensor:
        """The weight in the chosen columns."""
        return self.weight_of(self.columns)

    def weight_of(self, columns: torch.Tensor) -> torch.Tensor:
        """The weight in other columns, around the ends."""
        return self.weight[columns % len(self.weight)].to(torch.float64)

    def further(self, by: int) -> torch.Tensor:
        """The x in all columns of the rows `by` rows further, around the ends of the call."""
        return self.x[(self.rows + by) % len(self.x)].to(torch.float64)


Application = Callable[[Rows, torch.Tensor], torch.Tensor]
"""Computes the output's rows from x, the statistic and the weight."""
Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Wording:
    """What sentences on mistakes call the formula."""

    what: str = "RMSNorm"
    symbol: str = "x"
    """What is normalized."""
    operators: Mapping[str, str] = field(
        default_factory=lambda: {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}
    )
    """The operator of each convention of the weight, where there is one."""

    def say(self, text: str) -> str:
        """A sentence about x, said of what is normalized."""
        return text if self.symbol == "x" else re.sub(r"\bx\b", self.symbol, text)


@dataclass(frozen=True)
class Wrong:
    """A wrong statistic or application."""

    what: str
    """What is wrong, to be put after "RMSNorm"."""
    fix: str
    function: Callable[..., torch.Tensor]


def mean(values: torch.Tensor) -> torch.Tensor:
    """The mean of each row, [rows, 1]."""
    return values.mean(dim=-1, keepdim=True)


def right_rstd(rows: Rows) -> torch.Tensor:
    """The right statistic."""
    return torch.rsqrt(rows.mean_square + rows.eps)


def apply_rightly(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
    """The right application."""
    return rows.part * rstd * rows.part_weight


def round_to(dtype: torch.dtype) -> Rounding:
    """A function that rounds float64 to what a narrower dtype can hold, and returns float64."""
    return lambda values: round_once(values, dtype).to(torch.float64)


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype's name, such as `float16`."""
    return str(dtype).removeprefix("torch.")


def narrow_dtypes(dtype: torch.dtype) -> list[torch.dtype]:
    """The dtypes narrower than float32 in which a kernel for x of this dtype may compute by mistake."""
    return [dtype] if dtype.itemsize == 2 else [torch.float16, torch.bfloat16]


def fewer_columns(hidden: int) -> list[int]:
    """Numbers of columns that kernels see when they leave some out: a few tiles, or all but a few."""
    powers = [1 << bit for bit in range(hidden.bit_length()) if 1 << bit < hidden]
    return sorted({*powers, *(hidden - power for power in powers)})
