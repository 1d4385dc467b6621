"""Hard rows of x with a dy that goes with them: what breaks wrong kernels of backward passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.norms.hard_rows import (
    HARD_ROWS,
    INFINITY,
    LIMITS,
    NAN,
    NEAR_EPS,
    NON_FINITE_ROWS,
    make_infinity,
    make_nan,
    rotate_kinds,
)

if TYPE_CHECKING:
    import torch

_Pair = tuple["torch.Tensor", "torch.Tensor"]
Kind = Callable[["torch.Tensor", "torch.Tensor"], _Pair]
"""Makes hard rows of x and dy of random ones."""


def _with_small_dy(make: Callable[[torch.Tensor], torch.Tensor]) -> Kind:
    """Rows of x with a small dy, so that a dx in 16 bits is finite where rstd is large."""
    return lambda x, dy: (make(x), dy * 1e-2)


ZERO_DY = "zero row of dy"

KINDS: Mapping[str, Kind] = {
    **{name: _with_small_dy(make) for name, make in HARD_ROWS.items() if name != NEAR_EPS},
    "dy scaled by 100 (the sum of dy * weight * x above 65504)": lambda x, dy: (x, dy * 100),
    ZERO_DY: lambda x, dy: (x, dy * 0),
}


def _reach_limits(x: torch.Tensor, dy: torch.Tensor, magnitude: float = 1.0) -> _Pair:
    """Rows of one magnitude, whose reciprocal rstd is, and a dy of which two elements are as large as dx may be."""
    import torch

    x, dy = x * 0 + magnitude, dy * 0
    x[:, 1::2] = -magnitude
    most = 0.999 * torch.finfo(dy.dtype).max
    dy[:, 0], dy[:, 2 % dy.shape[1]] = most, -most
    return x, dy


def _exceed_float16(x: torch.Tensor, dy: torch.Tensor) -> _Pair:
    """As `_reach_limits`, with an rstd of 2 in float16. In other dtypes float32 would overflow on the way."""
    import torch

    return _reach_limits(x, dy, 0.5 if dy.dtype == torch.float16 else 1.0)


EXTREME_KINDS: Mapping[str, Kind] = {
    f"{NAN} in x": lambda x, dy: (NON_FINITE_ROWS[NAN](x), dy),
    f"{INFINITY} in x": lambda x, dy: (NON_FINITE_ROWS[INFINITY](x), dy),
    f"{NAN} in dy": lambda x, dy: (x, make_nan(dy)),
    f"{INFINITY} in dy": lambda x, dy: (x, make_infinity(dy)),
    LIMITS: _reach_limits,
    "dx beyond the maximum of float16": _exceed_float16,
}


def fill_pairs(
    inputs: Mapping[str, Any], kinds: Mapping[str, Kind], rotation: int
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Copies of x and dy with rows of all kinds in turn, and the order of these."""
    x, dy = inputs["x"].clone(), inputs["dy"].clone()
    order = rotate_kinds(kinds, x.shape[0], rotation)
    for offset, kind in enumerate(order[: x.shape[0]]):
        rows = slice(offset, None, len(order))
        x[rows], dy[rows] = kinds[kind](x[rows].clone(), dy[rows].clone())
    return order, {"dy": dy, "x": x}
