"""Wrong applications of RMSNorm: the weight, the rounding or the written columns are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rounded_statistics import narrow_statistics
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import (
    Application,
    Rounding,
    Rows,
    Wrong,
    apply_rightly,
    dtype_name,
    fewer_columns,
    mean,
    narrow_dtypes,
    round_to,
)


def wrong_applications(
    hidden: int, dtype: torch.dtype, right: Application, *, has_weight: bool = True
) -> Iterator[Wrong]:
    """Yield the wrong applications that no library has as its convention, for x of this dtype."""
    factors = "rsqrt(mean(x^2) + eps) and the weight" if has_weight else "rsqrt(mean(x^2) + eps)"
    yield Wrong("reduced to x itself", f"multiply by {factors}", lambda r, rstd: r.part)
    if has_weight:
        yield from _wrong_weights()
    yield from _wrong_roundings(dtype, right)
    for what, center in {"": _subtract_mean, " from x, but not from its squares": lambda values: values}.items():
        yield Wrong(
            f"with the mean subtracted{what or ', as in LayerNorm'}",
            "do not subtract the mean",
            partial(_center, center_for_squares=center),
        )
    for columns in (count for count in fewer_columns(hidden) if count >= hidden // 8):  # fewer look like zeros alone
        yield Wrong(
            f"with zeros after the first {columns} of {hidden} columns",
            "write all columns; check the bounds and the mask of the store",
            partial(_write_some_columns, columns=columns, right=right),
        )


def _subtract_mean(values: torch.Tensor) -> torch.Tensor:
    return values - mean(values)


def _center(rows: Rows, _: torch.Tensor, center_for_squares: Rounding) -> torch.Tensor:
    rstd = torch.rsqrt(mean(center_for_squares(rows.whole) ** 2) + rows.eps)
    return rows.finish((rows.part - mean(rows.whole)) * rstd * rows.part_weight)


def _write_some_columns(rows: Rows, rstd: torch.Tensor, columns: int, right: Application) -> torch.Tensor:
    return torch.where(rows.columns < columns, right(rows, rstd), 0.0)


def _wrong_roundings(dtype: torch.dtype, right: Application) -> Iterator[Wrong]:
    for precision in (torch.float16, torch.bfloat16):
        if precision is not dtype:
            yield Wrong(
                f"with the output rounded to {dtype_name(precision)} on its way",
                f"convert from float32 to {dtype_name(dtype)} directly",
                partial(lambda r, rstd, narrow: narrow(right(r, rstd)), narrow=round_to(precision)),
            )
    for precision in narrow_dtypes(dtype):
        for statistic in narrow_statistics(round_to(precision)):
            yield Wrong(
                f"with every step in {dtype_name(precision)}",
                "convert x to float32 first, and to its dtype once at the end",
                partial(_compute_narrowly, narrow=round_to(precision), statistic=statistic),
            )


def _compute_narrowly(
    rows: Rows, _: torch.Tensor, narrow: Rounding, statistic: Callable[[Rows], torch.Tensor]
) -> torch.Tensor:
    return rows.finish(narrow(rows.part * statistic(rows)) * rows.part_weight)


def _wrong_weights() -> Iterator[Wrong]:
    yield Wrong(
        "with the weight added instead of multiplied",
        "multiply by the weight",
        lambda r, rstd: r.finish(r.part * rstd + r.part_weight),
    )
    yield Wrong(
        "with the weight multiplied twice",
        "multiply by the weight once",
        lambda r, rstd: r.finish(r.part * rstd * r.part_weight**2),
    )
    column = "multiply column c by weight[c]"
    for name, by in (("previous", -1), ("next", 1)):
        yield Wrong(
            f"with the weight of the {name} column",
            column,
            partial(lambda r, rstd, by: r.finish(r.part * rstd * r.weight_of(r.columns + by)), by=by),
        )
    yield Wrong(
        "with the weight of the row's number",
        column,
        lambda r, rstd: r.finish(r.part * rstd * r.weight_of(r.rows).unsqueeze(1)),
    )
    yield Wrong(
        "of x * weight",
        "compute mean(x^2) of x alone",
        lambda r, _: apply_rightly(r, torch.rsqrt(mean(r.squares * r.weight.to(torch.float64) ** 2) + r.eps)),
    )
