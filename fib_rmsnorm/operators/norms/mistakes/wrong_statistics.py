"""Wrong statistics of RMSNorm: eps, root, mean or row are wrong, or computed in a dtype narrower than float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, narrow_dtypes, round_once, round_to
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, fewer_columns, mean, mended_by

_FIXED_EPS = (1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, FLOAT32_EPS)
"""Values of eps in models' configurations, and torch's default for float32."""


def _of_mean_squares(
    fix: str, functions: Mapping[str, Callable[..., torch.Tensor]], slack: float = 0.0
) -> Iterator[Wrong]:
    """Yield the statistics of wrong mean squares that one fix mends, by what is wrong."""
    for what, compute in functions.items():
        yield Wrong(what, fix, lambda r, compute=compute: torch.rsqrt(compute(r) + r.eps), slack)


def wrong_statistics(rows: Rows) -> Iterator[Wrong]:
    """Yield the wrong statistics for some rows of a call, those that are rounded last."""
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
    yield from mended_by(
        "use the eps that the call passes, or the reference's where no call does",
        {
            f"with eps={fixed:.3g} although another is right": lambda r, fixed=fixed: torch.rsqrt(r.mean_square + fixed)
            for fixed in _FIXED_EPS
        },
    )
    if rows.has_weight:
        yield Wrong("reduced to x * weight", "multiply by rsqrt(mean(x^2) + eps) too", lambda r: r.mean_square * 0 + 1)
    if not rows.is_centered:
        yield from _of_mean_squares(
            "use mean(x^2): RMSNorm subtracts no mean",
            {
                "with the variance instead of the mean square": lambda r: r.whole.var(-1, keepdim=True, correction=0),
                "with the unbiased variance instead of the mean square": lambda r: r.whole.var(-1, keepdim=True),
            },
        )
    less_one = f"with the sum of squares divided by {hidden - 1}"
    divisors = {1: "with the sum of squares instead of their mean", hidden - 1: less_one}
    yield from _of_mean_squares(
        f"divide the sum of squares by {hidden}",
        {what: lambda r, by=by: r.mean_square * (hidden / by) for by, what in divisors.items() if by},
    )
    for columns, divisor in ((some, each) for some in fewer_columns(hidden) for each in (some, hidden)):
        yield from _of_mean_squares(
            "add the squares of all columns; check the bounds and the mask of the loop",
            {
                f"with the squares of only the first {columns} of {hidden} columns": partial(
                    lambda r, some, by: r.squares[:, :some].sum(dim=-1, keepdim=True) / by, some=columns, by=divisor
                )
            },
        )
    if batch > 1:
        yield from _of_mean_squares(
            "compute the mean square of each row",
            {
                "with the first row's mean square for all rows": lambda r: mean(r.x[:1].double() ** 2),
                "with one mean square of all rows": lambda r: (
                    torch.linalg.vector_norm(r.x, dtype=torch.float64) ** 2 / r.x.numel()
                ),
            },
        )
    for precision in narrow_dtypes(rows.dtype):
        yield from _rounded_sums(hidden, precision)
    yield from mended_by(
        "keep the reciprocal root in float32",
        {
            f"with the reciprocal root rounded to {dtype_name(each)}": lambda r, each=each: round_to(each)(r.rstd)
            for each in (torch.float16, torch.bfloat16)
        },
    )


# A sum of more columns, one after the other, takes too long here.
_MOST_SUMMED_IN_TURN = 1 << 13
# A GPU's compiler gives each thread a part of the row, and fuses squares with additions. Over 1024 to 16384 columns of
# float16, by 32 to 256 threads, that moved rstd by 0.04 to 0.28%.
_ANY_ORDER = 2.0**-8


def _rounded_sums(hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    narrow, mended = round_to(dtype), partial(_of_mean_squares, "convert x to float32 before it is squared")
    summed = f"with mean(x^2) in {dtype_name(dtype)}"
    # What is squared may have to be rounded first: a sum with a residual, or x of a wider dtype.
    yield from mended({f"with squares in {dtype_name(dtype)}": lambda r: mean(narrow(narrow(r.whole) ** 2))})
    yield from mended({summed: lambda r: _add_squares(r, _add_halves, dtype) / hidden}, _ANY_ORDER)
    for add in _SUMS:
        if add is not _add_in_turn or hidden <= _MOST_SUMMED_IN_TURN:
            total = lru_cache(maxsize=1)(partial(_add_squares, add=add, dtype=dtype))
            yield from mended({summed: lambda r, total=total: narrow(total(r) / hidden)})
            yield from mended({summed: lambda r, total=total: total(r) / hidden})


def _add_squares(rows: Rows, add: _Sum, dtype: torch.dtype) -> torch.Tensor:
    return add(round_once(rows.squares, dtype)).to(torch.float64)


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
