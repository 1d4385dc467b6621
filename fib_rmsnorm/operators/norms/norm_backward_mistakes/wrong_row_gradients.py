"""Wrong formulas of dx: a term, the weight, rstd or a mean is wrong, or rounded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.norm_backward_mistakes.gradient_parts import GradientRows, mean
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rounding, Wrong, dtype_name, narrow_dtypes, round_to


def wrong_row_gradients(rows: GradientRows) -> Iterator[Wrong]:
    """Yield them for a call; each function makes dx of its rows."""
    right = "use (w - mean(w) - n * mean(w * n)) * rstd" if rows.is_centered else "use (w - n * mean(w * n)) * rstd"
    right += ", with w = dy * weight and n = the normalized x"
    yield Wrong("of a constant rstd, w * rstd alone", right, lambda r: (r.scaled * r.rstd)[:, r.columns])
    yield Wrong(
        "with n * mean(w * n) added", right, lambda r: r.combine(r.scaled, r.normalized, -mean(r.scaled * r.normalized))
    )
    yield Wrong(
        "with the sum of w * n instead of its mean",
        right,
        lambda r: r.combine(r.scaled, r.normalized, (r.scaled * r.normalized).sum(-1, keepdim=True)),
    )
    yield Wrong(
        "without the weight", right, lambda r: r.combine(r.of("dy"), r.normalized, mean(r.of("dy") * r.normalized))
    )
    yield Wrong(
        "with dy instead of dy * weight in the mean",
        right,
        lambda r: r.combine(r.scaled, r.normalized, mean(r.of("dy") * r.normalized)),
    )
    yield Wrong(
        "with x instead of the normalized x",
        right,
        lambda r: r.combine(r.scaled, r.of("x"), mean(r.scaled * r.of("x"))),
    )
    yield Wrong(
        "with x instead of the normalized x in the mean",
        right,
        lambda r: r.combine(r.scaled, r.normalized, mean(r.scaled * r.of("x"))),
    )
    yield Wrong("without the last factor rstd", right, lambda r: _combine_rightly(r) / r.rstd)
    yield Wrong("with the last factor rstd twice", right, lambda r: _combine_rightly(r) * r.rstd)
    if rows.is_centered:
        yield from _wrong_centerings(right)
    for dtype in narrow_dtypes(rows.inputs["x"].dtype):
        yield from _rounded(dtype)


def _combine_rightly(rows: GradientRows) -> torch.Tensor:
    return rows.combine(rows.scaled, rows.normalized, mean(rows.scaled * rows.normalized))


def _wrong_centerings(right: str) -> Iterator[Wrong]:
    yield Wrong(
        "without the term of rstd, n * mean(w * n)", right, lambda r: r.combine(r.scaled, r.normalized, r.rstd * 0)
    )
    yield Wrong(
        "without mean(w) subtracted, as RMSNorm's",
        right,
        lambda r: ((r.scaled - r.normalized * mean(r.scaled * r.normalized)) * r.rstd)[:, r.columns],
    )
    yield Wrong(
        "of an x whose mean was not subtracted",
        right,
        lambda r: r.combine(r.scaled, r.of("x") * r.rstd, mean(r.scaled * r.of("x") * r.rstd)),
    )


def _rounded(dtype: torch.dtype) -> Iterator[Wrong]:
    narrow, name = round_to(dtype), dtype_name(dtype)
    fix = "convert dy, x and weight to float32 first, and round dx once at the end"
    yield Wrong(f"with w rounded to {name}", fix, partial(_round_parts, of_scaled=narrow, of_normalized=_keep))
    yield Wrong(
        f"with the normalized x rounded to {name}", fix, partial(_round_parts, of_scaled=_keep, of_normalized=narrow)
    )
    yield Wrong(
        f"with w and the normalized x rounded to {name}",
        fix,
        partial(_round_parts, of_scaled=narrow, of_normalized=narrow),
    )


def _round_parts(rows: GradientRows, of_scaled: Rounding, of_normalized: Rounding) -> torch.Tensor:
    scaled, normalized = of_scaled(rows.scaled), of_normalized(rows.normalized)
    return rows.combine(scaled, normalized, mean(scaled * normalized))


def _keep(values: torch.Tensor) -> torch.Tensor:
    return values
