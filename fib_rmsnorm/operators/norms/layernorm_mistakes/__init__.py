"""The usual wrong formulas of LayerNorm, so that a verdict can name the one that an output equals.

A formula has two parts: the normalized row (right: `(x - mean) * rsqrt(var + eps)`), and what is made of it with the
weight and the bias. A mistake is wrong in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.mistake import Mistake
from fib_rmsnorm.operators.norms.layernorm_mistakes.centered_rows import CenteredRows, apply_rightly, normalize_rightly
from fib_rmsnorm.operators.norms.layernorm_mistakes.wrong_finishes import wrong_finishes
from fib_rmsnorm.operators.norms.layernorm_mistakes.wrong_moments import wrong_moments
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Wrong
from fib_rmsnorm.operators.norms.rounding import round_once


def usual_mistakes(rows: CenteredRows) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order."""
    (batch, hidden), dtype = rows.x.shape, rows.x.dtype

    def mistake(wrong: Wrong, compute: partial[torch.Tensor]) -> Mistake:
        return Mistake(
            f"the output equals LayerNorm {wrong.what}: {wrong.fix}", 1, lambda: round_once(compute(), dtype)
        )

    for wrong in wrong_moments(batch, hidden, dtype):
        yield mistake(wrong, partial(_apply, rows, wrong))
    for wrong in wrong_finishes(dtype, has_bias="bias" in rows.inputs):
        yield mistake(wrong, partial(_finish, rows, wrong))


def _apply(rows: CenteredRows, wrong: Wrong) -> torch.Tensor:
    return apply_rightly(rows, wrong.function(rows))


def _finish(rows: CenteredRows, wrong: Wrong) -> torch.Tensor:
    return wrong.function(rows, normalize_rightly(rows))


__all__ = ["CenteredRows", "usual_mistakes"]
