"""Wrong statistics of RMSNorm: eps, root, mean or row are wrong, or computed in a dtype narrower than float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import product

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, round_once
from fib_rmsnorm.operators.norms.mistakes.rows import (
    Rounding,
    Rows,
    Wrong,
    dtype_name,
    fewer_columns,
    mean,
    mended_by,
    narrow_dtypes,
    right_rstd,
    round_to,
)

_FIXED_EPS = (1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, FLOAT32_EPS)
"""Values of eps in models' configurations, and torch's default for float32."""


def wrong_statistics(rows: Rows) -> Iterator[Wrong]:
    """Yield the wrong statistics for some rows of a call."""
    batch, hidden = rows.x.shape
    yield from mended_by(
        "use rsqrt(mean(x^2) + eps)",
        {
            "without eps": lambda r: torch.rsqrt(r.mean_square),
            "with eps added twice": lambda r: torch.rsqrt(r.mean_square + 2 * r.eps),
            "with eps added outside the root": lambda r: 1 / (r.mean_square.sqrt() + r.eps),
            "with eps added to the sum of squares, before its division by hidden": lambda r: torch.rsqrt(
                r.mean_square + r.eps / hidden
            ),
            "with eps as a lower limit of mean(x^2)": lambda r: r.mean_square.clamp(min=r.eps).rsqrt(),
            "without the root": lambda r: 1 / (r.mean_square + r.eps),
            "multiplied by the root instead of divided by it": lambda r: (r.mean_square + r.eps).sqrt(),
        },
    )
    for fixed in _FIXED_EPS:
        yield Wrong(
            f"with eps={fixed:.3g} although another is right",
            "use the eps that the call passes, or the reference's where no call does",
            lambda r, fixed=fixed: torch.rsqrt(r.mean_square + fixed),
        )
    if rows.has_weight:
        yield Wrong("reduced to x * weight", "multiply by rsqrt(mean(x^2) + eps) too", lambda r: r.mean_square * 0 + 1)
    if not rows.is_centered:
        yield from mended_by(
            "use mean(x^2): RMSNorm subtracts no mean",
            {
                f"with the {name} instead of the mean square": lambda r, correction=correction: torch.rsqrt(
                    r.whole.var(-1, keepdim=True, correction=correction) + r.eps
                )
                for correction, name in enumerate(("variance", "unbiased variance"))
            },
        )
    less_one = f"with the sum of squares divided by {hidden - 1}"
    for divisor, what in {1: "with the sum of squares instead of their mean", hidden - 1: less_one}.items():
        yield Wrong(
            what,
            f"divide the sum of squares by {hidden}",
            lambda r, factor=hidden / divisor: torch.rsqrt(r.mean_square * factor + r.eps),
        )
    for columns in fewer_columns(hidden):
        for divisor in (columns, hidden):
            yield Wrong(
                f"with the squares of only the first {columns} of {hidden} columns",
                "add the squares of all columns; check the bounds and the mask of the loop",
                lambda r, columns=columns, divisor=divisor: torch.rsqrt(
                    r.squares[:, :columns].sum(dim=-1, keepdim=True) / divisor + r.eps
                ),
            )
    if batch > 1:
        yield from mended_by(
            "compute the mean square of each row",
            {
                "with the first row's mean square for all rows": lambda r: torch.rsqrt(
                    mean(r.x[:1].double() ** 2) + r.eps
                ),
                "with one mean square of all rows": lambda r: torch.rsqrt(
                    torch.linalg.vector_norm(r.x, dtype=torch.float64) ** 2 / r.x.numel() + r.eps
                ),
            },
        )


# A sum of more columns, one after the other, takes too long here.
_MOST_SUMMED_IN_TURN = 1 << 13
# A GPU's compiler gives each thread a part of the row, and fuses squares with additions. Over 1024 to 16384 columns of
# float16, by 32 to 256 threads, that moved rstd by 0.04 to 0.28%.
_ANY_ORDER = 2.0**-8


def rounded_statistics(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the rounded statistics for x of this dtype."""
    for precision in narrow_dtypes(dtype):
        yield from _rounded_sums(hidden, precision)
    for precision in (torch.float16, torch.bfloat16):
        yield Wrong(
            f"with the reciprocal root rounded to {dtype_name(precision)}",
            "keep the reciprocal root in float32",
            partial(lambda r, narrow: narrow(right_rstd(r)), narrow=round_to(precision)),
        )


def _rounded_sums(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    name, narrow = dtype_name(dtype), round_to(dtype)
    convert = "convert x to float32 before it is squared"
    # What is squared may have to be rounded first: a sum with a residual, or x of a wider dtype.
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
                    lambda r, total=total, divide=divide: torch.rsqrt(divide(total(r) / hidden) + r.eps),
                )


def _add_squares(rows: Rows, add: _Sum, dtype: torch.dtype) -> torch.Tensor:
    return add(round_once(rows.squares, dtype)).to(torch.float64)


def narrow_statistics(narrow: Rounding) -> Iterator[Callable[[Rows], torch.Tensor]]:
    """Yield the ways in which torch computes the statistic with each step rounded, from an x that was not converted.

    On a CPU, it rounds the sum before it divides, and the root before its reciprocal.
    """
    for round_sum, round_root in product((narrow, _keep), repeat=2):
        yield partial(_narrow_rstd, narrow=narrow, round_sum=round_sum, round_root=round_root)


def _narrow_rstd(rows: Rows, narrow: Rounding, round_sum: Rounding, round_root: Rounding) -> torch.Tensor:
    squares = narrow(rows.squares)
    mean_square = narrow(round_sum(squares.sum(-1, keepdim=True)) / squares.shape[1])
    return narrow(1 / round_root(narrow(mean_square + rows.eps).sqrt()))


def _keep(values: torch.Tensor) -> torch.Tensor:
    return values


_Sum = Callable[["torch.Tensor"], "torch.Tensor"]


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
        values = torch.nn.functional.pad(values, (0, values.shape[1] % 2))
        half = values.shape[1] // 2
        values = values[:, :half] + values[:, half:]
    return values


_SUMS: tuple[_Sum, ...] = (_add_exactly, _add_in_turn, _add_halves)
"""The orders in which kernels add: in a loop, or in the tree of a reduction."""
