"""Statistics of RMSNorm that are computed, in part or in whole, in a dtype narrower than float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import (
    Rounding,
    Rows,
    Wrong,
    dtype_name,
    mean,
    narrow_dtypes,
    right_rstd,
    round_to,
)
from fib_rmsnorm.operators.norms.rounding import round_once

# A sum of more columns, one after the other, takes too long here.
_MOST_SUMMED_IN_TURN = 1 << 13
# A GPU's compiler gives each thread a part of the row, and fuses squares with additions. Over 1024 to 16384 columns of
# float16, by 32 to 256 threads, that moved rstd by 0.04 to 0.28%.
_ANY_ORDER = 2.0**-8


def rounded_statistics(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the rounded statistics for x of this dtype."""
    for precision in narrow_dtypes(dtype):
        yield from _rounded_sums(hidden, precision)
        yield from _rounded_means(dtype_name(precision), round_to(precision))
    for precision in (torch.float16, torch.bfloat16):
        yield Wrong(
            f"with the reciprocal root rounded to {dtype_name(precision)}",
            "keep the reciprocal root in float32",
            partial(lambda r, narrow: narrow(right_rstd(r)), narrow=round_to(precision)),
        )


def _rounded_sums(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    name, narrow = dtype_name(dtype), round_to(dtype)
    convert = "convert x to float32 before it is squared"
    yield Wrong(f"with squares in {name}", convert, lambda r: torch.rsqrt(mean(narrow(r.squares)) + r.eps))
    # What is squared may be rounded first: a sum with a residual, or x of a wider dtype.
    yield Wrong(f"with squares in {name}", convert, lambda r: torch.rsqrt(mean(narrow(narrow(r.whole) ** 2)) + r.eps))
    yield Wrong(
        f"with mean(x^2) in {name}",
        convert,
        lambda r: torch.rsqrt(_add_squares(r, _add_halves, dtype) / hidden + r.eps),
        slack=_ANY_ORDER,
    )
    for add in _SUMS:
        if add is not _add_in_turn or hidden <= _MOST_SUMMED_IN_TURN:
            total = lru_cache(maxsize=1)(partial(_add_squares, add=add, dtype=dtype))
            for divide in (narrow, _keep):
                yield Wrong(
                    f"with mean(x^2) in {name}",
                    convert,
                    partial(
                        lambda r, total, divide: torch.rsqrt(divide(total(r) / hidden) + r.eps),
                        total=total,
                        divide=divide,
                    ),
                )


def _add_squares(rows: Rows, add: _Sum, dtype: torch.dtype) -> torch.Tensor:
    return add(round_once(rows.squares, dtype)).to(torch.float64)


def _rounded_means(name: str, narrow: Rounding) -> Iterator[Wrong]:
    keep = "keep the mean square, eps and the root in float32"
    yield Wrong(f"with mean(x^2) rounded to {name}", keep, lambda r: torch.rsqrt(narrow(r.mean_square) + r.eps))
    yield Wrong(
        f"with mean(x^2) + eps rounded to {name}", keep, lambda r: torch.rsqrt(narrow(narrow(r.mean_square) + r.eps))
    )
    for statistic in narrow_statistics(narrow):
        yield Wrong(f"with its statistic in {name}", keep, statistic)


def narrow_statistics(narrow: Rounding) -> Iterator[Callable[[Rows], torch.Tensor]]:
    """Yield the ways in which torch computes the statistic with each step rounded, from an x that was not converted.

    On a CPU, it rounds the sum before it divides, and the root before its reciprocal.
    """
    for round_sum in (narrow, _keep):
        for round_root in (narrow, _keep):
            yield partial(_narrow_rstd, narrow=narrow, round_sum=round_sum, round_root=round_root)


def _narrow_rstd(rows: Rows, narrow: Rounding, round_sum: Rounding, round_root: Rounding) -> torch.Tensor:
    squares = narrow(rows.squares)
    mean_square = narrow(round_sum(squares.sum(-1, keepdim=True)) / squares.shape[1])
    return narrow(1 / round_root(narrow(mean_square + rows.eps).sqrt()))


def _keep(values: torch.Tensor) -> torch.Tensor:
    return values


_Sum = Callable[[torch.Tensor], torch.Tensor]


def _add_exactly(values: torch.Tensor) -> torch.Tensor:
    """Add as torch and NumPy do: in more precision, and rounded at the end."""
    return round_once(values.to(torch.float64).sum(-1, keepdim=True), values.dtype)


def _add_in_turn(values: torch.Tensor) -> torch.Tensor:
    columns = values.T.contiguous().cpu().unbind()  # each addition is a kernel on a GPU
    total = torch.zeros_like(columns[0])
    for column in columns:
        total += column
    return total.unsqueeze(1).to(values.device)


def _add_halves(values: torch.Tensor) -> torch.Tensor:
    while values.shape[1] > 1:
        values = _pad_to_even(values)
        half = values.shape[1] // 2
        values = values[:, :half] + values[:, half:]
    return values


def _add_neighbours(values: torch.Tensor) -> torch.Tensor:
    while values.shape[1] > 1:
        values = _pad_to_even(values)
        values = values[:, 0::2] + values[:, 1::2]
    return values


def _pad_to_even(values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, values.shape[1] % 2))


_SUMS: tuple[_Sum, ...] = (_add_exactly, _add_in_turn, _add_halves, _add_neighbours)
"""The orders in which kernels add: in a loop, or in the trees of a reduction."""
