"""Rows with a NaN or an infinity, and rows whose outputs reach the limits of their dtype: a hard case of its own.

Its weight is too large for other rows, and what such a row adds to a sum over rows hides all that the others add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from fib_rmsnorm.operators.norms.hard_rows import Kinds

if TYPE_CHECKING:
    import torch

NAME = "NaN, infinities and limits"
NAN, INFINITY, LIMITS = "a NaN", "an infinity", "outputs at the limits of the dtype"
_LARGEST = 0.999
"""How near the largest finite output is to the dtype's: float32's errors may not reach it."""


def limit_columns(hidden: int) -> list[int]:
    """The columns of the largest output, of the smallest, and of one that overflows."""
    return [hidden // 4, hidden // 2, hidden - 1]


def limit_weight(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy of a weight, [hidden], by which the three elements of a row of LIMITS reach the limits of `dtype`.

    Their mean square is 1/16, so that each is sqrt(hidden / 3) when it is normalized, and no order of the factors
    overflows float32 before the end.
    """
    import torch

    most = torch.finfo(dtype).max
    factor = most / math.sqrt(weight.shape[0] / 3)
    values = torch.tensor([_LARGEST * factor, -_LARGEST * factor, 2 * factor], dtype=torch.float64)
    weight = weight.clone()
    largest = torch.finfo(weight.dtype).max
    weight[limit_columns(weight.shape[0])] = values.clamp(-largest, largest).to(weight)
    return weight


def spoil_weight(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a weight, [hidden], with a NaN where no row has an element of its own; unchanged if it is too short."""
    hidden = weight.shape[0]
    column = _spoiled_column(hidden)
    weight = weight.clone()
    if column not in (*limit_columns(hidden), *infinite_columns(hidden)):
        weight[column] = math.nan
    return weight


def _spoiled_column(hidden: int) -> int:
    return hidden * 2 // 5


def infinite_columns(hidden: int) -> list[int]:
    """The columns of a row's infinity and of its minus infinity."""
    return [hidden // 3, hidden * 2 // 3]


def make_nan(x: torch.Tensor) -> torch.Tensor:
    """Put one NaN into each row, in other columns."""
    import torch

    rows = torch.arange(x.shape[0], device=x.device)
    x[rows, (x.shape[1] // 3 + 977 * rows) % x.shape[1]] = math.nan
    return x


def _make_infinities(x: torch.Tensor) -> torch.Tensor:
    """Both in the first row, for there may be only one; then one of them, the other, and both again."""
    positive, negative = infinite_columns(x.shape[1])
    x[:, positive], x[:, negative] = math.inf, -math.inf
    x[1::3, negative], x[2::3, positive] = 1, 1
    return x


def make_infinity(x: torch.Tensor) -> torch.Tensor:
    """Put one infinity into each row, of either sign in turn: the sum of two would be a NaN."""
    x[0::2, x.shape[1] // 3] = math.inf
    x[1::2, x.shape[1] // 3] = -math.inf
    return x


def make_positive_infinity(x: torch.Tensor) -> torch.Tensor:
    """Put one positive infinity into each row."""
    x[:, x.shape[1] // 3] = math.inf
    return x


def _make_limits(x: torch.Tensor) -> torch.Tensor:
    x = x * 0
    x[:, limit_columns(x.shape[1])] = math.sqrt(x.shape[1] / 3) / 4
    return x


def spoil_bias(bias: torch.Tensor) -> torch.Tensor:
    """A copy of a bias, [hidden], with a NaN and an infinity where no row and no weight has an element of its own."""
    hidden = bias.shape[0]
    taken = (*limit_columns(hidden), *infinite_columns(hidden), _spoiled_column(hidden))
    bias = bias.clone()
    for column, value in ((hidden * 3 // 5, math.nan), (hidden * 4 // 5, math.inf)):
        if column not in taken:
            bias[column] = value
    return bias


def make_non_finite_kinds(part: str, put_infinity: Callable[[torch.Tensor], torch.Tensor] = make_infinity) -> Kinds:
    """The kinds of rows with a NaN and with an infinity in another input than x."""
    return {f"{NAN} in the {part}": make_nan, f"{INFINITY} in the {part}": put_infinity}


EXTREME_ROWS: Kinds = {NAN: make_nan, INFINITY: _make_infinities, LIMITS: _make_limits}
NON_FINITE_ROWS: Kinds = {NAN: make_nan, INFINITY: _make_infinities}
"""Those of an operator without a weight."""
