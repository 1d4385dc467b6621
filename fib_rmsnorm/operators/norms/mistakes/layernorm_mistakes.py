"""The usual wrong formulas of LayerNorm, so that a verdict can name the one that an output equals.

A formula has two parts: the normalized row (right: `(x - mean) * rsqrt(var + eps)`), and what is made of it with the
weight and the bias. A mistake is wrong in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rows import (
    CenteredRows,
    Wrong,
    dtype_name,
    round_to,
)
from fib_rmsnorm.operators.norms.mistakes.wrong_moments import wrong_moments
from fib_rmsnorm.operators.operator import Mistake


def usual_mistakes(rows: CenteredRows) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order."""
    (batch, hidden), dtype = rows.x.shape, rows.x.dtype

    def mistake(wrong: Wrong, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(
            f"the output equals LayerNorm {wrong.what}: {wrong.fix}", 1, lambda: round_once(compute(), dtype)
        )

    def finish(wrong: Wrong) -> torch.Tensor:
        return wrong.function(rows, rows.centered * torch.rsqrt(rows.variance + rows.eps))

    for wrong in wrong_moments(batch, hidden, dtype):
        yield mistake(wrong, lambda wrong=wrong: rows.finish_normalized(wrong.function(rows)))  # type: ignore[misc]
    for wrong in _wrong_finishes(dtype, has_bias="bias" in rows.inputs):
        yield mistake(wrong, partial(finish, wrong))


def _wrong_finishes(dtype: torch.dtype, *, has_bias: bool) -> Iterator[Wrong]:
    """What is wrongly made of normalized rows: each function makes the output of the rows and the normalized x."""
    yield Wrong("without the weight", "multiply by the weight", lambda r, n: n + r.bias)
    yield Wrong(
        "with 1 + weight instead of weight",
        "multiply by the weight",
        lambda r, n: n * (1 + r.part_weight) + r.bias,
    )
    yield Wrong("reduced to x itself", "multiply by rsqrt(var + eps) and the weight", lambda r, _: r.part)
    if has_bias:
        yield from _wrong_biases()
    for precision in (torch.float16, torch.bfloat16):
        yield from _roundings(precision, dtype, has_bias=has_bias)


def _wrong_biases() -> Iterator[Wrong]:
    right = "add the bias after the weight: normalized * weight + bias"
    yield Wrong("without the bias", right, lambda r, n: n * r.part_weight)
    yield Wrong("with the bias added before the weight", right, lambda r, n: (n + r.bias) * r.part_weight)
    yield Wrong("with the bias subtracted", right, lambda r, n: n * r.part_weight - r.bias)
    yield Wrong("with the bias added twice", right, lambda r, n: n * r.part_weight + 2 * r.bias)
    yield Wrong("with weight and bias swapped", right, lambda r, n: n * r.bias + r.part_weight)


def _roundings(precision: torch.dtype, dtype: torch.dtype, *, has_bias: bool) -> Iterator[Wrong]:
    narrow, name = round_to(precision), dtype_name(precision)
    fix = f"compute in float32 and round to {dtype_name(dtype)} once, at the end"
    if precision is dtype or dtype.itemsize > 2:
        yield Wrong(
            f"with the normalized x rounded to {name} before the weight",
            fix,
            lambda r, n: r.finish_normalized(narrow(n)),
        )
        if has_bias:
            yield Wrong(
                f"rounded to {name} before the bias is added", fix, lambda r, n: narrow(n * r.part_weight) + r.bias
            )
            yield Wrong(
                f"with each step after the root in {name}", fix, lambda r, n: narrow(narrow(n) * r.part_weight) + r.bias
            )
    if precision is not dtype:
        yield Wrong(
            f"with the output rounded to {name} on its way",
            f"convert from float32 to {dtype_name(dtype)} directly",
            lambda r, n: narrow(r.finish_normalized(n)),
        )
