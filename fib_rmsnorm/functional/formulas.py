"""The norms and their gradients in plain torch: where no kernel serves, and for compilers and transforms.

All compute in float32, or in float64 if x has that dtype, and round each result once, as the operators' references do.
A form is what a norm computes: RMSNorm by the name of its rounding convention, or "layernorm".
"""

from typing import Any, NamedTuple

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
    "torch": Form(),
    "llama": Form(rounds_first=True),
    "gemma": Form(adds_one=True),
    "layernorm": Form(is_centred=True),
}


def check_convention(convention: str) -> None:
    """Raise ValueError for what is not the name of a rounding convention of RMSNorm."""
    if convention not in FORMS or FORMS[convention].is_centred:
        raise ValueError(f"convention: expected one of 'torch', 'llama', 'gemma', got {convention!r}")


def normalize(
    form: str,
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    is_fusible: bool = True,
) -> Any:
    """The norm over the last dimension of x, in x's dtype; with a residual, that of x + residual, and the sum.

    If it `is_fusible`, it is torch's own function where that rounds alike: few loops, and compilers know its gradient.
    Else every step is there to be seen.
    """
    wide = compute_dtype(x.dtype)
    rows = new_residual = x
    if residual is not None and rounds_sum(form, x.dtype):
        rows = new_residual = x + residual
    elif residual is not None:
        rows = x.to(wide) + residual.to(wide)
        new_residual = rows.to(residual.dtype)
    if not is_fusible or rows.dtype != x.dtype or not is_torchs(form, x, weight, bias):
        out = normalize_wide(form, rows.to(wide), weight, bias, eps, x.dtype)
    elif form == "torch":
        out = torch_functional.rms_norm(rows, rows.shape[-1:], weight, eps)
    else:
        out = torch_functional.layer_norm(rows, rows.shape[-1:], weight, bias, eps)
    return out if residual is None else (out, new_residual)


def is_torchs(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Whether torch has a function that computes this and rounds alike."""
    has_function = form == "layernorm" or (form == "torch" and bias is None)
    return has_function and all(each is None or each.dtype == x.dtype for each in (weight, bias))


def differentiate(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, which is the new residual if one was added, of the weight and of the bias.

    That of x is the residual's too, because only their sum is used. A tensor without elements stands for one that
    nobody needs; that of the bias has the weight's dtype, or without a weight that of the computation.

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
    return dx.to(x.dtype).reshape(x.shape), dweight, dbias


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
