"""Rows of activations that break wrong kernels, which the hard cases of operators over rows share.

Rows with a NaN or an infinity, and rows whose outputs reach the limits of their dtype, are a hard case of their own.
Its weight is too large for other rows, and what such a row adds to a sum over rows hides all that the others add.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count as count_up

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.operator import Inputs

Maker = Callable[["torch.Tensor"], "torch.Tensor"]
"""Makes hard rows of random ones, of one input."""
Rows = dict[str, "torch.Tensor"]
"""Rows of inputs, by part."""
Kinds = Mapping[str, Callable[[Rows], Rows]]
"""Kinds of rows: the name says what a kind breaks, and the function makes such rows, by part, of random ones.

It gets copies of these rows of all inputs that have some, and returns those that it changes.
"""


def of(part: str, makers: Mapping[str, Maker]) -> Kinds:
    """Kinds of rows of one input."""

    def change(rows: Rows, make: Maker) -> Rows:
        return {part: make(rows[part])}

    return {name: partial(change, make=make) for name, make in makers.items()}


_LEAST_EPS, USUAL_EPS, _MOST_EPS = 1e-7, 1e-6, 1e-1
_OTHER_EPS = 10.0
"""The least factor between the eps of a Workload and the other eps of its hard cases."""


def choose_other_eps(eps: float, seed: str) -> float:
    """Another eps for hard cases, which a kernel cannot know beforehand: log-uniform, by the Workload's uuid."""
    draw = random.Random(f"{seed} eps")
    drawn = (_LEAST_EPS * (_MOST_EPS / _LEAST_EPS) ** draw.random() for _ in count_up())
    return next(float(f"{each:.3g}") for each in drawn if not eps / _OTHER_EPS < each < eps * _OTHER_EPS)


def set_somewhere(x: torch.Tensor, value: float, first: int = 13) -> torch.Tensor:
    """Set an element of each row, in other columns."""
    rows = torch.arange(x.shape[0], device=x.device)
    x[rows, (first + 977 * rows) % x.shape[1]] = value
    return x


def make_huge_column(x: torch.Tensor, column: int) -> torch.Tensor:
    """Set a column to what is near the maximum of float16, 65504."""
    x[:, column] = 60000.0
    return x


def scale_to_reach(x: torch.Tensor) -> torch.Tensor:
    """Scale random rows so that most elements are far above 65504, or a tenth of it where the dtype ends there."""
    return x * (1e9 if torch.finfo(x.dtype).max > 65504 else 6000.0)


NEAR_EPS = "rows whose mean square is about eps"
"""Random rows, which `make_usual_case` scales."""


HARD_ROWS: Mapping[str, Maker] = {
    "x scaled by 300 (squares above 65504)": lambda x: x * 300,
    NEAR_EPS: lambda x: x,
    "x scaled by 1e-4 (eps dominates)": lambda x: x * 1e-4,
    "zero row": lambda x: x * 0,
    "one huge element": lambda x: set_somewhere(x, 60000.0),
    "huge first column": lambda x: make_huge_column(x, 0),
    "huge last column": lambda x: make_huge_column(x, -1),
    "constant row": lambda x: x * 0 + 3.0,
    "x scaled by 1e-6 (nearly zero)": lambda x: x * 1e-6,
    "x as large as its dtype allows (above 65504, but in float16)": scale_to_reach,
}
"""Hard rows of x."""


def _standardize(x: torch.Tensor) -> torch.Tensor:
    """Rows with a mean of 0 and a mean square of 1, so that their rstd is nearly 1."""
    wide = x.float() - x.float().mean(dim=-1, keepdim=True)
    return (wide * wide.square().mean(dim=-1, keepdim=True).rsqrt()).to(x.dtype)


def _repeat_a_row(x: torch.Tensor) -> torch.Tensor:
    """The same row, of five values in turn, in place of all."""
    return x * 0 + (torch.arange(x.shape[1], device=x.device) % 5 - 2)


SPECIAL_ROWS: Mapping[str, Maker] = {
    "mean square of 1": _standardize,
    "mean square of 1, as the row above": _standardize,
    "1% of the elements exactly 0": lambda x: x.masked_fill(x.abs() < 0.0125, 0),
    "zeros, ones and minus ones": lambda x: x.round().clamp(-1, 1),
    "-2 to 2 in turn": _repeat_a_row,
    "-2 to 2 in turn, as the row above": _repeat_a_row,
}
"""Rows of values that a kernel may treat apart. Where they lie follows from the random rows, so from the seed."""


def make_special_columns(values: torch.Tensor, seed: str, first: int = 1) -> torch.Tensor:
    """A copy of a random weight or bias, [hidden], that begins with `first`; at random places are other values.

    These are 0, 1, -1, a tiny one and a repeat.
    """
    draw, hidden = random.Random(seed), values.shape[0]
    values = values.clone()
    for value in (0.0, 1.0, -1.0, 1e-4, float(values[-1])):
        values[draw.sample(range(hidden), hidden // 16)] = value
    values[: draw.randint(hidden // 16 + 1, hidden // 2 + 1)] = first
    return values


def count_rotations(kinds: int, rows: int) -> int:
    """The number of cases in which every kind appears, even with one row for each."""
    return -(-kinds // max(1, min(rows, kinds)))


def fill_rows(inputs: Inputs, kinds: Kinds, rotation: int) -> tuple[Rows, tuple[str, ...]]:
    """Make copies of the inputs that have rows, as x does, and say of which kinds their rows are in turn.

    Row r is of kind `order[r % len(order)]`. Each rotation starts where the one before ended.
    """
    names, dim = list(kinds), inputs["x"].dim()
    start = rotation * len(inputs["x"]) % len(names)
    order = (*names[start:], *names[:start])
    made = {part: value.clone() for part, value in inputs.items() if hasattr(value, "dim") and value.dim() == dim}
    for offset, kind in enumerate(order[: len(made["x"])]):
        rows = slice(offset, None, len(order))
        for part, hard in kinds[kind]({part: value[rows].clone() for part, value in made.items()}).items():
            made[part][rows] = hard
    return made, order


def make_hard_weight(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a random weight, [hidden], with zero, negative and large elements; the first and the last are not 0."""
    weight = weight.clone()
    weight[3:-1:5] = 0
    weight[1::5] = -weight[1::5].abs()
    weight[2::5] *= 16
    return weight


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
    most = torch.finfo(dtype).max
    factor = most / math.sqrt(weight.shape[0] / 3)
    values = torch.tensor([_LARGEST * factor, -_LARGEST * factor, 2 * factor], dtype=torch.float64)
    weight = weight.clone()
    largest = torch.finfo(weight.dtype).max
    weight[limit_columns(weight.shape[0])] = values.clamp(-largest, largest).to(weight)
    return weight


def spoil(values: torch.Tensor, by_fifth: Mapping[int, float]) -> torch.Tensor:
    """A copy of a weight or a bias, [hidden], with values that are not finite where the given fifths of it begin.

    They are left out where a row has an element of its own, as in all places if it is short.
    """
    hidden, values = len(values), values.clone()
    for fifth, value in by_fifth.items():
        if (column := hidden * fifth // 5) not in (*limit_columns(hidden), *infinite_columns(hidden)):
            values[column] = value
    return values


def infinite_columns(hidden: int) -> list[int]:
    """The columns of a row's infinity and of its minus infinity."""
    return [hidden // 3, hidden * 2 // 3]


def make_nan(x: torch.Tensor) -> torch.Tensor:
    """Put one NaN into each row, in other columns."""
    return set_somewhere(x, math.nan, x.shape[1] // 3)


def _make_infinities(x: torch.Tensor) -> torch.Tensor:
    """Both in the first row, for there may be only one; then one of them, the other, and both again."""
    positive, negative = infinite_columns(x.shape[1])
    x[:, positive], x[:, negative] = math.inf, -math.inf
    x[1::3, negative], x[2::3, positive] = 1, 1
    return x


def make_infinity(x: torch.Tensor, second: float = -math.inf) -> torch.Tensor:
    """Put one infinity into each row, of either sign in turn: the sum of two would be a NaN."""
    x[0::2, x.shape[1] // 3] = math.inf
    x[1::2, x.shape[1] // 3] = second
    return x


def make_limits(x: torch.Tensor) -> torch.Tensor:
    """Three elements in each row, by which `limit_weight` reaches the limits of the dtype, and zeros."""
    x = x * 0
    x[:, limit_columns(x.shape[1])] = math.sqrt(x.shape[1] / 3) / 4
    return x


def make_non_finite_kinds(part: str, put_infinity: Maker = make_infinity) -> Kinds:
    """The kinds of rows with a NaN and with an infinity in another input than x."""
    return of(part, {f"{NAN} in the {part}": make_nan, f"{INFINITY} in the {part}": put_infinity})


NON_FINITE_ROWS: Mapping[str, Maker] = {NAN: make_nan, INFINITY: _make_infinities}
"""The hard rows of an operator without a weight."""
EXTREME_ROWS: Mapping[str, Maker] = {**NON_FINITE_ROWS, LIMITS: make_limits}
