"""The usual wrong formulas of LayerNorm: those of its mean and variance, and RMSNorm's of x less its mean."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes import rmsnorm_mistakes
from fib_rmsnorm.operators.norms.mistakes.rows import (
    CenteredRows,
    Rounding,
    Wording,
    Wrong,
    dtype_name,
    mean,
    mended_by,
    narrow_dtypes,
    round_to,
)
from fib_rmsnorm.operators.operator import Mistake


def usual_mistakes(rows: CenteredRows) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order."""

    def finish(wrong: Wrong) -> torch.Tensor:
        return round_once(rows.finish(wrong.function(rows) * rows.part_weight), rows.dtype)

    batch, hidden = rows.x.shape
    for wrong in _wrong_moments(batch, hidden, rows.dtype):
        yield Mistake(f"the output equals LayerNorm {wrong.what}: {wrong.fix}", 1, partial(finish, wrong))
    yield from rmsnorm_mistakes.usual_mistakes(rows, "torch", Wording("LayerNorm", "(x - mean)"))


def _wrong_moments(batch: int, hidden: int, dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield them for x of these sizes and this dtype; each function makes the normalized x in the chosen columns."""
    yield from mended_by(
        "subtract the mean from x, before it is squared and in the output",
        {
            "without the mean subtracted, as RMSNorm": lambda r: r.raw_part * torch.rsqrt(mean(r.raw**2) + r.eps),
            "with the mean subtracted in the variance alone": lambda r: r.raw_part * torch.rsqrt(r.mean_square + r.eps),
            "with mean(x^2) instead of the variance": lambda r: r.part * torch.rsqrt(mean(r.raw**2) + r.eps),
        },
    )
    if padding := (1 << (hidden - 1).bit_length()) - hidden:
        yield Wrong(
            "with the padding of a block counted in the variance",
            "mask x - mean before it is squared: beyond the row it is -mean, not 0",
            lambda r: r.part * torch.rsqrt(r.mean_square + r.mean**2 * padding / hidden + r.eps),
        )
    for columns in (1 << bit for bit in range(5, hidden.bit_length()) if 1 << bit < hidden):
        yield Wrong(
            f"with the mean and variance of only the first {columns} of {hidden} columns",
            "add all columns; check the bounds and the mask of the loop",
            lambda r, columns=columns: _normalize_by(r, r.raw[:, :columns]),
        )
    if batch > 1:
        yield from mended_by(
            "compute mean and variance of each row",
            {
                "with the first row's mean and variance for all rows": lambda r: _normalize_by(r, r.x[:1].double()),
                "with the next row's mean and variance": lambda r: _normalize_by(r, r.further(1)),
                "with the previous row's mean and variance": lambda r: _normalize_by(r, r.further(-1)),
            },
        )
    yield from _expanded_variances(torch.float32)
    for precision in narrow_dtypes(dtype):
        yield from _rounded_moments(precision)
        yield from _expanded_variances(precision)


def _normalize_by(rows: CenteredRows, x: torch.Tensor) -> torch.Tensor:
    """The rows less the mean of others, over the root of their variance."""
    return (rows.raw_part - mean(x)) * torch.rsqrt(x.var(dim=-1, keepdim=True, correction=0) + rows.eps)


def _rounded_moments(dtype: torch.dtype) -> Iterator[Wrong]:
    narrow, name = round_to(dtype), dtype_name(dtype)
    fix = "convert x to float32 first, and keep mean, variance and root in float32"
    yield Wrong(
        f"with the mean rounded to {name}",
        fix,
        lambda r: (r.raw_part - narrow(r.mean)) * torch.rsqrt(mean((r.raw - narrow(r.mean)) ** 2) + r.eps),
    )
    for round_root in (narrow, torch.Tensor.clone):
        yield Wrong(f"with every step in {name}", fix, partial(_round_every_step, narrow=narrow, round_root=round_root))


def _round_every_step(rows: CenteredRows, narrow: Rounding, round_root: Rounding) -> torch.Tensor:
    middle = narrow(rows.mean)
    variance = narrow(mean(narrow(narrow(rows.raw - middle) ** 2)))
    rstd = narrow(1 / round_root(narrow(variance + rows.eps).sqrt()))
    return narrow(narrow(rows.raw_part - middle) * rstd)


def _expanded_variances(dtype: torch.dtype) -> Iterator[Wrong]:
    """E[x^2] - E[x]^2, which has no digits left where the mean is far above the standard deviation."""
    what = f"with the variance as E[x^2] - E[x]^2 in {dtype_name(dtype)}"
    fix = "compute mean((x - mean)^2) in a second pass, or by Welford's algorithm"
    for least in (None, 0.0):
        yield Wrong(what, fix, partial(_expand_variance, dtype=dtype, least=least))


def _expand_variance(rows: CenteredRows, dtype: torch.dtype, least: float | None) -> torch.Tensor:
    x = rows.x[rows.rows].to(dtype)
    middle = x.mean(dim=-1, keepdim=True)
    variance = (x * x).mean(dim=-1, keepdim=True) - middle * middle
    if least is not None:
        variance = variance.clamp(min=least)
    return (rows.raw_part - middle.to(torch.float64)) * torch.rsqrt(variance.to(torch.float64) + rows.eps)
