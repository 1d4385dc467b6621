"""Kernels with a usual mistake each, and what verdicts call it: `{hidden}` and `{dtype}` depend on the Definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Run = Callable[..., Any]

MISTAKEN: dict[str, tuple[Run, str]] = {}
"""By name: the kernel and its mistake."""
IN_ALL_DTYPES: list[str] = []
"""Those whose mistake is the same on inputs of any dtype."""


def gives(mistake: str, *, in_all_dtypes: bool = True) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        MISTAKEN[run.__name__] = run, mistake
        IN_ALL_DTYPES.extend([run.__name__] if in_all_dtypes else [])
        return run

    return add


def mean_of_squares(x):
    return x.float().pow(2).mean(dim=-1, keepdim=True)


def scale(x, rstd, weight):
    return (x.float() * rstd * weight.float()).to(x.dtype)


@gives("with eps as a lower limit of mean(x^2)")
def eps_as_a_limit(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x).clamp(min=eps)), weight)


@gives("with eps added twice")
def eps_twice(x, weight, eps):
    return scale(x, torch.rsqrt((x.float().pow(2) + eps).mean(dim=-1, keepdim=True) + eps), weight)


@gives("with eps=1.19e-07 although another is right")
def eps_of_torch(x, weight, eps):
    """Passes no eps to torch, whose default is float32's."""
    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float()).to(x.dtype)


@gives("with zeros after the first {but_64} of {hidden} columns")
def last_columns_zero(x, weight, eps):
    out = scale(x, torch.rsqrt(mean_of_squares(x) + eps), weight)
    out[:, -64:] = 0
    return out


@gives("with the sum of squares divided by {hidden_less_one}")
def divisor_less_one(x, weight, eps):
    mean_square = x.float().pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
    return scale(x, torch.rsqrt(mean_square + eps), weight)


@gives("with the sum of squares instead of their mean")
def sum_not_mean(x, weight, eps):
    return scale(x, torch.rsqrt(x.float().pow(2).sum(dim=-1, keepdim=True) + eps), weight)


@gives("without the root")
def no_root(x, weight, eps):
    return (x.float() / (mean_of_squares(x) + eps) * weight.float()).to(x.dtype)


@gives("multiplied by the root instead of divided by it")
def multiplied_by_the_root(x, weight, eps):
    return scale(x, torch.sqrt(mean_of_squares(x) + eps), weight)


@gives("with the squares of only the first {half} of {hidden} columns")
def half_the_columns(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x[:, : x.shape[-1] // 2]) + eps), weight)


@gives("with the unbiased variance instead of the mean square")
def variance(x, weight, eps):
    return scale(x, torch.rsqrt(x.float().var(dim=-1, keepdim=True) + eps), weight)


@gives("with the first row's mean square for all rows")
def first_row_for_all(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x)[0] + eps), weight)


@gives("with one mean square of all rows")
def all_rows_together(x, weight, eps):
    return scale(x, torch.rsqrt(x.float().pow(2).mean() + eps), weight)


@gives("bit-shift approximation of the reciprocal root (Newton steps: 1)")
def bit_shift(x, weight, eps):
    value = mean_of_squares(x) + eps
    guess = (0x5F3759DF - (value.view(torch.int32) >> 1)).view(torch.float32)
    return scale(x, guess * (1.5 - 0.5 * value * guess * guess), weight)


@gives("with 1 + weight instead of weight, as in Gemma")
def one_plus_weight(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x) + eps), 1 + weight.float())


@gives("without the weight")
def no_weight(x, weight, eps):
    return (x.float() * torch.rsqrt(mean_of_squares(x) + eps)).to(x.dtype)


@gives("with the weight added instead of multiplied")
def weight_added(x, weight, eps):
    return (x.float() * torch.rsqrt(mean_of_squares(x) + eps) + weight.float()).to(x.dtype)


@gives("with the weight of the next column")
def weight_of_the_next_column(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x) + eps), weight.float().roll(-1))


@gives("RMSNorm of x * weight")
def weight_before_the_statistic(x, weight, eps):
    product = x.float() * weight.float()
    return (product * torch.rsqrt(mean_of_squares(product) + eps)).to(x.dtype)


@gives("rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm", in_all_dtypes=False)
def hugging_face_llama(x, weight, eps):
    return weight * (x.float() * torch.rsqrt(mean_of_squares(x) + eps)).to(x.dtype)


@gives("with every step in {dtype}", in_all_dtypes=False)
def everything_narrow(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


@gives("with mean(x^2) in {dtype}", in_all_dtypes=False)
def sum_in_turn(x, weight, eps):
    total = torch.zeros_like(x[:, :1])
    for column in (x * x).split(1, dim=1):
        total += column
    return scale(x, torch.rsqrt(total.float() / x.shape[-1] + eps), weight)


@gives("with mean(x^2) in {dtype}", in_all_dtypes=False)
def squares_added_by_threads(x, weight, eps):
    """The sum of a GPU: each thread adds vectors of 8, whose first square is fused with the next."""
    batch, hidden = x.shape
    squares = (x * x).view(batch, -1, min(hidden // 8, 128), 4, 2)
    wide = x.float().view(squares.shape)[..., 0].square() + squares[..., 1].float()
    parts = wide.to(x.dtype).sum(-1, dtype=torch.float32).to(x.dtype)
    total = parts[:, 0]
    for part in parts.unbind(1)[1:]:
        total = total + part
    while total.shape[1] > 1:
        total = total[:, : total.shape[1] // 2] + total[:, total.shape[1] // 2 :]
    return scale(x, torch.rsqrt(total.float() / hidden + eps), weight)


@gives("with the reciprocal root rounded to bfloat16", in_all_dtypes=False)
def root_rounded(x, weight, eps):
    return scale(x, torch.rsqrt(mean_of_squares(x) + eps).to(torch.bfloat16).float(), weight)


@gives("with the output rounded to {other_dtype} on its way", in_all_dtypes=False)
def through_another_dtype(x, weight, eps):
    other = torch.float16 if x.dtype is torch.bfloat16 else torch.bfloat16
    wide = x.float() * torch.rsqrt(mean_of_squares(x) + eps) * weight.float()
    return wide.to(other).to(x.dtype)


@gives(
    "without eps and with x * rstd rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm",
    in_all_dtypes=False,
)
def llama_without_eps(x, weight, eps):
    return weight * (x.float() * torch.rsqrt(mean_of_squares(x))).to(x.dtype)
