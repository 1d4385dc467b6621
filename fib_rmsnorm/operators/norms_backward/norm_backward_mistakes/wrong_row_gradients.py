"""Wrong formulas of dx: a term, the weight, rstd or a mean is wrong, or rounded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rounding, Wrong, dtype_name, narrow_dtypes, round_to
from fib_rmsnorm.operators.norms_backward.norm_backward_mistakes.gradient_parts import GradientRows, mean


def wrong_row_gradients(rows: GradientRows) -> Iterator[Wrong]:
    """Yield them for a call; each function makes dx of its rows."""
    right = "use (w - mean(w) - n * mean(w * n)) * rstd" if rows.is_centered else "use (w - n * mean(w * n)) * rstd"
    right += " + dnew_residual" if rows.has_residual else ""
    right += ", with w = dy * weight and n = the normalized x"
    yield Wrong("of a constant rstd, w * rstd alone", right, lambda r: (r.scaled * r.rstd)[:, r.columns] + r.added)
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
    yield Wrong("without the last factor rstd", right, lambda r: _of_norm(r) / r.rstd + r.added)
    yield Wrong("with the last factor rstd twice", right, lambda r: _of_norm(r) * r.rstd + r.added)
    if rows.has_residual:
        yield from _wrong_residuals(rows.inputs["x"].dtype, right)
    if rows.is_centered:
        yield from _wrong_centerings(right)
    for dtype in narrow_dtypes(rows.inputs["x"].dtype):
        yield from _rounded(dtype)


def _of_norm(rows: GradientRows) -> torch.Tensor:
    return rows.of_norm(rows.scaled, rows.normalized, mean(rows.scaled * rows.normalized))


def _wrong_residuals(dtype: torch.dtype, right: str) -> Iterator[Wrong]:
    yield Wrong("without dnew_residual", right, _of_norm)
    yield Wrong("with dnew_residual subtracted", right, lambda r: _of_norm(r) - r.added)
    yield Wrong("with dnew_residual added twice", right, lambda r: _of_norm(r) + 2 * r.added)
    yield Wrong("with dnew_residual times rstd", right, lambda r: _of_norm(r) + r.added * r.rstd)
    yield Wrong("of dnew_residual alone", right, lambda r: r.added)
    for narrow in narrow_dtypes(dtype):
        yield Wrong(
            f"with the norm's part rounded to {dtype_name(narrow)} before dnew_residual is added",
            "add dnew_residual in float32, and round dx once at the end",
            partial(_round_first, narrow=round_to(narrow)),
        )
    yield Wrong("with dnew_residual added to dy, before the norm's backward pass", right, _add_to_dy)


def _round_first(rows: GradientRows, narrow: Rounding) -> torch.Tensor:
    return narrow(_of_norm(rows)) + rows.added


def _add_to_dy(rows: GradientRows) -> torch.Tensor:
    weight: torch.Tensor = rows.inputs["weight"].to(torch.float64)
    scaled = (rows.of("dy") + rows.of("dnew_residual")) * weight
    return rows.of_norm(scaled, rows.normalized, mean(scaled * rows.normalized))


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
