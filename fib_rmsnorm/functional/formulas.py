"""The norms and their gradients in plain torch: where no kernel serves, and for compilers and transforms.

All compute in float32, or in float64 if x has that dtype, and round each result once, as the operators' references do.
A form is what a norm computes, as the custom ops and the formulas name it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as torch_functional


class Form(NamedTuple):
    """A norm of rows, apart from the tensors that it is given."""

    is_centred: bool = False
    """Whether the mean is subtracted: LayerNorm."""
    adds_one: bool = False
    """Whether the factor is 1 + weight: Gemma."""
    rounds_first: bool = False
    """Whether the normalised row, and the sum before it, are rounded to x's dtype before what follows: Llama."""


FORMS = {
    "rmsnorm": Form(),
    "rmsnorm_llama": Form(rounds_first=True),
    "rmsnorm_gemma": Form(adds_one=True),
    "layernorm": Form(is_centred=True),
}
CONVENTIONS = {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}
"""The form of RMSNorm by the name of its rounding convention."""


class Gradients(NamedTuple):
    """The gradients of a norm. A tensor without elements stands for one that nobody needs."""

    x: Tensor
    """This is the gradient of the residual too, because only its sum with x is used."""
    weight: Tensor
    bias: Tensor
    """It has the weight's dtype or, without a weight, that of the computation."""


def find_form(convention: str) -> str:
    """The form of RMSNorm by the name of its convention. Raises ValueError for another name."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention: expected one of {', '.join(map(repr, CONVENTIONS))}, got {convention!r}")
    return CONVENTIONS[convention]


def normalize(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm over the last dimension of x, in x's dtype."""
    return normalize_wide(form, x.to(compute_dtype(x.dtype)), weight, bias, eps, x.dtype)


def add_and_normalize(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum in the residual's dtype."""
    wide = compute_dtype(x.dtype)
    total = x.to(wide) + residual.to(wide)
    new_residual = total.to(residual.dtype)
    normalized = new_residual.to(wide) if FORMS[form].rounds_first else total
    return normalize_wide(form, normalized, weight, bias, eps, x.dtype), new_residual


def normalize_fusibly(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm by torch's own function where that rounds alike: few loops, and compilers know its gradient."""
    if all(each is None or each.dtype == x.dtype for each in (weight, bias)):
        if form == "rmsnorm" and bias is None:
            return torch_functional.rms_norm(x, x.shape[-1:], weight, eps)
        if form == "layernorm":
            return torch_functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
    return normalize(form, x, weight, bias, eps)


def add_and_normalize_fusibly(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum, for a compiler that joins loops."""
    if rounds_sum(form, x.dtype):
        total = x + residual
        return normalize_fusibly(form, total, weight, bias, eps), total
    return add_and_normalize(form, x, residual, weight, bias, eps)


def differentiate(
    form: str, dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, *, has_bias: bool, eps: float
) -> Gradients:
    """The gradients of `normalize`, or of `add_and_normalize`, of which x is then the new residual.

    With n the normalised row, w = dy * weight and means over the row: dx = (w - n * mean(w * n)) * rstd, for LayerNorm
    less mean(w) * rstd; dweight = sum(dy * n) and dbias = sum(dy), over all rows.
    """
    traits = FORMS[form]
    hidden = x.shape[-1]
    wide = x.to(compute_dtype(x.dtype)).reshape(-1, hidden)
    normalized, rstd = _standardize(traits, wide, eps)
    dy_wide = dy.reshape(-1, hidden).to(wide.dtype)
    scaled = dy_wide if weight is None else dy_wide * _factor(traits, weight, wide.dtype)
    dx = scaled - normalized * (scaled * normalized).mean(-1, keepdim=True)
    if traits.is_centred:
        dx = dx - scaled.mean(-1, keepdim=True)
    dx = dx * rstd
    if dnew_residual is not None:
        dx = dx + dnew_residual.reshape(-1, hidden).to(wide.dtype)
    nothing = x.new_empty(0)
    seen = normalized.to(x.dtype).to(wide.dtype) if traits.rounds_first else normalized
    dweight = nothing if weight is None else (dy_wide * seen).sum(0).to(weight.dtype).reshape(weight.shape)
    dbias = dy_wide.sum(0).to(wide.dtype if weight is None else weight.dtype) if has_bias else nothing
    return Gradients(dx.to(x.dtype).reshape(x.shape), dweight, dbias)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a norm is computed."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def normalize_wide(
    form: str,
    wide: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    dtype: torch.dtype,
    rstd_factor: float = 1.0,
) -> Tensor:
    """The norm of rows in the dtype of the computation, rounded to `dtype` where the form does.

    `rstd_factor` times rstd is what code gets that adds the squares less exactly.
    """
    traits = FORMS[form]
    normalized, _ = _standardize(traits, wide, eps, rstd_factor)
    if traits.rounds_first:
        normalized = normalized.to(dtype).to(wide.dtype)
    if weight is not None:
        normalized = normalized * _factor(traits, weight, wide.dtype)
    if bias is not None:
        normalized = normalized + bias.to(wide.dtype)
    return normalized.to(dtype)


def _standardize(traits: Form, wide: Tensor, eps: float, rstd_factor: float = 1.0) -> tuple[Tensor, Tensor]:
    if traits.is_centred:
        wide = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return wide * (rstd if rstd_factor == 1 else rstd * rstd_factor), rstd


def _factor(traits: Form, weight: Tensor, dtype: torch.dtype) -> Tensor:
    wide = weight.to(dtype)
    return 1 + wide if traits.adds_one else wide


def rounds_sum(form: str, dtype: torch.dtype) -> bool:
    """Whether the sum that is normalised is the one that is returned, rounded to `dtype`."""
    return FORMS[form].rounds_first or dtype == compute_dtype(dtype)
