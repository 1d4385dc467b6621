"""What kernels wrongly make of LayerNorm's normalized rows: the weight, the bias or the rounding is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.layernorm_mistakes.centered_rows import CenteredRows, apply_rightly
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rounding, Wrong, dtype_name, round_to


def wrong_finishes(dtype: torch.dtype, *, has_bias: bool) -> Iterator[Wrong]:
    """Yield them for x of this dtype; each function makes the output of the rows and the normalized x."""
    yield Wrong("without the weight", "multiply by the weight", lambda r, n: n + r.bias)
    yield Wrong(
        "with 1 + weight instead of weight",
        "multiply by the weight",
        lambda r, n: n * (1 + r.weight) + r.bias,
    )
    yield Wrong("reduced to x itself", "multiply by rsqrt(var + eps) and the weight", lambda r, _: r.part)
    if has_bias:
        yield from _wrong_biases()
    for precision in (torch.float16, torch.bfloat16):
        yield from _roundings(precision, dtype, has_bias=has_bias)


def _wrong_biases() -> Iterator[Wrong]:
    right = "add the bias after the weight: normalized * weight + bias"
    yield Wrong("without the bias", right, lambda r, n: n * r.weight)
    yield Wrong("with the bias added before the weight", right, lambda r, n: (n + r.bias) * r.weight)
    yield Wrong("with the bias subtracted", right, lambda r, n: n * r.weight - r.bias)
    yield Wrong("with the bias added twice", right, lambda r, n: n * r.weight + 2 * r.bias)
    yield Wrong("with weight and bias swapped", right, lambda r, n: n * r.bias + r.weight)


def _roundings(precision: torch.dtype, dtype: torch.dtype, *, has_bias: bool) -> Iterator[Wrong]:
    narrow, name = round_to(precision), dtype_name(precision)
    fix = f"compute in float32 and round to {dtype_name(dtype)} once, at the end"
    if precision is dtype or dtype.itemsize > 2:
        yield Wrong(
            f"with the normalized x rounded to {name} before the weight",
            fix,
            partial(lambda r, n, narrow: apply_rightly(r, narrow(n)), narrow=narrow),
        )
        if has_bias:
            yield Wrong(f"rounded to {name} before the bias is added", fix, partial(_round_twice, narrow=narrow))
            yield Wrong(f"with each step after the root in {name}", fix, partial(_round_often, narrow=narrow))
    if precision is not dtype:
        yield Wrong(
            f"with the output rounded to {name} on its way",
            f"convert from float32 to {dtype_name(dtype)} directly",
            partial(lambda r, n, narrow: narrow(apply_rightly(r, n)), narrow=narrow),
        )


def _round_twice(rows: CenteredRows, normalized: torch.Tensor, narrow: Rounding) -> torch.Tensor:
    return narrow(normalized * rows.weight) + rows.bias


def _round_often(rows: CenteredRows, normalized: torch.Tensor, narrow: Rounding) -> torch.Tensor:
    return narrow(narrow(normalized) * rows.weight) + rows.bias
