"""Wrong statistics of RMSNorm: eps, root, mean or row are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rows, Wrong, fewer_columns, mean

_RIGHT = "use rsqrt(mean(x^2) + eps)"
_FIXED_EPS = (1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, torch.finfo(torch.float32).eps)
"""Values of eps in models' configurations, and torch's default for float32."""


def wrong_statistics(batch: int, hidden: int, *, has_weight: bool = True) -> Iterator[Wrong]:
    """Yield the wrong statistics for inputs of these sizes."""
    yield from _wrong_eps(hidden)
    if has_weight:
        yield Wrong("reduced to x * weight", "multiply by rsqrt(mean(x^2) + eps) too", lambda r: r.mean_square * 0 + 1)
    yield from _wrong_roots()
    yield from _wrong_means(hidden)
    if batch > 1:
        yield from _wrong_rows()


def _wrong_eps(hidden: int) -> Iterator[Wrong]:
    yield Wrong("without eps", _RIGHT, lambda r: torch.rsqrt(r.mean_square))
    yield Wrong("with eps added twice", f"{_RIGHT}, with eps once", lambda r: torch.rsqrt(r.mean_square + 2 * r.eps))
    yield Wrong("with eps added outside the root", _RIGHT, lambda r: 1 / (r.mean_square.sqrt() + r.eps))
    yield Wrong("with eps added to the reciprocal root", _RIGHT, lambda r: torch.rsqrt(r.mean_square) + r.eps)
    yield Wrong(
        "with eps added to the sum of squares, before its division by hidden",
        _RIGHT,
        lambda r: torch.rsqrt(r.mean_square + r.eps / hidden),
    )
    yield Wrong("with eps squared", _RIGHT, lambda r: torch.rsqrt(r.mean_square + r.eps**2))
    yield Wrong("with eps subtracted", _RIGHT, lambda r: torch.rsqrt(r.mean_square - r.eps))
    yield Wrong("with eps as a lower limit of mean(x^2)", _RIGHT, lambda r: r.mean_square.clamp(min=r.eps).rsqrt())
    for fixed in _FIXED_EPS:
        yield Wrong(
            f"with eps={fixed:.3g} although another is right",
            "use the eps that the call passes, or the reference's where no call does",
            partial(lambda r, fixed: torch.rsqrt(r.mean_square + fixed), fixed=fixed),
        )


def _wrong_roots() -> Iterator[Wrong]:
    yield Wrong("without the root", _RIGHT, lambda r: 1 / (r.mean_square + r.eps))
    yield Wrong("multiplied by the root instead of divided by it", _RIGHT, lambda r: (r.mean_square + r.eps).sqrt())
    yield Wrong("with mean(|x|) instead of a root", _RIGHT, lambda r: 1 / (mean(r.whole.abs()) + r.eps))
    for steps in (0, 1):
        yield Wrong(
            f"with a bit-shift approximation of the reciprocal root (Newton steps: {steps})",
            "use the library's rsqrt",
            partial(_approximate_rsqrt, steps=steps),
        )


def _approximate_rsqrt(rows: Rows, steps: int) -> torch.Tensor:
    value = (rows.mean_square + rows.eps).to(torch.float32)
    guess = (0x5F3759DF - (value.view(torch.int32) >> 1)).view(torch.float32)
    for _ in range(steps):
        guess = guess * (1.5 - 0.5 * value * guess * guess)
    return guess.to(torch.float64)


def _wrong_means(hidden: int) -> Iterator[Wrong]:
    for name, correction in (("variance", 0), ("unbiased variance", 1)):
        yield Wrong(
            f"with the {name} instead of the mean square",
            "use mean(x^2): RMSNorm subtracts no mean",
            partial(lambda r, n: torch.rsqrt(r.whole.var(-1, keepdim=True, correction=n) + r.eps), n=correction),
        )
    divisors = {1: "with the sum of squares instead of their mean"}
    for wrong in (hidden - 1, hidden + 1, 1 << hidden.bit_length()):
        divisors[wrong] = f"with the sum of squares divided by {wrong}"
    for divisor, what in divisors.items():
        yield Wrong(
            what,
            f"divide the sum of squares by {hidden}",
            partial(lambda r, factor: torch.rsqrt(r.mean_square * factor + r.eps), factor=hidden / divisor),
        )
    for columns in fewer_columns(hidden):
        for divisor in (columns, hidden):
            yield Wrong(
                f"with the squares of only the first {columns} of {hidden} columns",
                "add the squares of all columns; check the bounds and the mask of the loop",
                partial(_rstd_of_some_columns, columns=columns, divisor=divisor),
            )


def _rstd_of_some_columns(rows: Rows, columns: int, divisor: int) -> torch.Tensor:
    return torch.rsqrt(rows.squares[:, :columns].sum(dim=-1, keepdim=True) / divisor + rows.eps)


def _wrong_rows() -> Iterator[Wrong]:
    others = {
        "the first row's mean square for all rows": lambda r: mean(r.x[:1].to(torch.float64) ** 2),
        "the next row's mean square": lambda r: mean(r.further(1) ** 2),
        "the previous row's mean square": lambda r: mean(r.further(-1) ** 2),
        "one mean square of all rows": lambda r: torch.linalg.vector_norm(r.x, dtype=torch.float64) ** 2 / r.x.numel(),
    }
    for what, mean_square in others.items():
        yield Wrong(
            f"with {what}",
            "compute the mean square of each row",
            partial(lambda r, other: torch.rsqrt(other(r) + r.eps), other=mean_square),
        )
