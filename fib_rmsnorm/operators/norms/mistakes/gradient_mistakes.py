"""The usual wrong formulas of dx, a norm's gradient of x, so that a verdict can name the one that an output equals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rows import Wrong, mean, mended_by
from fib_rmsnorm.operators.norms.norm_gradients import GradientRows
from fib_rmsnorm.operators.operator import Mistake


def usual_mistakes(
    output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of dx, always in the same order; none of the sums."""
    given = GradientRows(inputs, rows, columns)

    def compute(wrong: Wrong) -> torch.Tensor:
        return round_once(wrong.function(given), inputs["x"].dtype)

    for wrong in wrong_row_gradients(given) if output == "dx" else ():
        yield Mistake(f"the output equals dx {wrong.what}: {wrong.fix}", 1, partial(compute, wrong))


def wrong_row_gradients(rows: GradientRows) -> Iterator[Wrong]:
    """Yield them for a call; each function makes dx of its rows."""
    right = "use (w - mean(w) - n * mean(w * n)) * rstd" if rows.is_centered else "use (w - n * mean(w * n)) * rstd"
    right += " + dnew_residual" if rows.has_residual else ""
    right += ", with w = dy * weight and n = the normalized x"
    yield from mended_by(
        right,
        {
            "of a constant rstd, w * rstd alone": lambda r: (r.scaled * r.rstd)[:, r.columns] + r.added,
            "with n * mean(w * n) added": lambda r: r.combine(r.scaled, r.normalized, -r.correction),
            "with the sum of w * n instead of its mean": lambda r: r.combine(
                r.scaled, r.normalized, (r.scaled * r.normalized).sum(-1, keepdim=True)
            ),
            "without the weight": lambda r: r.combine(r.of("dy"), r.normalized, mean(r.of("dy") * r.normalized)),
            "with dy instead of dy * weight in the mean": lambda r: r.combine(
                r.scaled, r.normalized, mean(r.of("dy") * r.normalized)
            ),
            "with x instead of the normalized x": lambda r: r.combine(r.scaled, r.of("x"), mean(r.scaled * r.of("x"))),
            "with x instead of the normalized x in the mean": lambda r: r.combine(
                r.scaled, r.normalized, mean(r.scaled * r.of("x"))
            ),
            "without the last factor rstd": lambda r: _of_norm(r) / r.rstd + r.added,
        },
    )
    if rows.has_residual:
        yield Wrong("without dnew_residual", right, _of_norm)
        yield Wrong("with dnew_residual added to dy, before the norm's backward pass", right, _add_to_dy)
    if rows.is_centered:
        yield from mended_by(
            right,
            {
                "without mean(w) subtracted, as RMSNorm's": lambda r: (
                    (r.scaled - r.normalized * r.correction) * r.rstd
                )[:, r.columns],
                "of an x whose mean was not subtracted": lambda r: r.combine(
                    r.scaled, r.of("x") * r.rstd, mean(r.scaled * r.of("x") * r.rstd)
                ),
            },
        )


def _of_norm(rows: GradientRows) -> torch.Tensor:
    return rows.of_norm(rows.scaled, rows.normalized, rows.correction)


def _add_to_dy(rows: GradientRows) -> torch.Tensor:
    scaled = (rows.of("dy") + rows.of("dnew_residual")) * rows.inputs["weight"].to(torch.float64)
    return rows.of_norm(scaled, rows.normalized, mean(scaled * rows.normalized))
