"""The gradients of a norm by the registry's kernel for them, or by torch where none serves, as on CPUs."""

from __future__ import annotations

import torch
from torch import Tensor

from fib_rmsnorm.functional.forms import name_gradient_operator
from fib_rmsnorm.functional.formulas import Gradients, differentiate
from fib_rmsnorm.functional.kernel_calls import ChosenKernel, find_for, rows_of


def run_norm_backward(
    form: str, dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, *, has_bias: bool, eps: float
) -> Gradients:
    """The gradients of x, the weight and the bias; x is the new residual if a residual was added.

    The kernels of the forward pass do not return a row's statistics, so they are computed here from x.
    """
    chosen = _find_kernel(form, x, weight, has_residual=dnew_residual is not None) if x.numel() else None
    if chosen is None or chosen.entry is None or weight is None:
        return differentiate(form, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)
    rows, dy_rows = rows_of(x), rows_of(dy)
    dx, dweight = torch.empty_like(rows), torch.empty_like(weight)
    if form == "layernorm":
        dbias = torch.empty_like(weight)
        chosen.entry(dy_rows, rows, weight.contiguous(), *_moments(rows, eps), dx, dweight, dbias)
        return Gradients(dx.view(x.shape), dweight, dbias if has_bias else x.new_empty(0))
    above = [] if dnew_residual is None else [rows_of(dnew_residual)]
    chosen.entry(dy_rows, *above, rows, weight.contiguous(), _rstd(rows, eps), dx, dweight)
    dbias = dy_rows.sum(0, dtype=torch.float32).to(weight.dtype) if has_bias else x.new_empty(0)
    return Gradients(dx.view(x.shape), dweight, dbias)


def _find_kernel(form: str, x: Tensor, weight: Tensor | None, *, has_residual: bool) -> ChosenKernel | None:
    operator = name_gradient_operator(form, residual=has_residual)
    if operator is None or weight is None or weight.dtype != x.dtype:
        return None
    return find_for(operator, x, weight)


def _rstd(rows: Tensor, eps: float) -> Tensor:
    """The reciprocal of each row's root mean square: one reduction, without a copy of x in float32."""
    norm = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float32)
    return torch.rsqrt(norm.square() / rows.shape[-1] + eps)


def _moments(rows: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(rows.float(), dim=-1, correction=0)
    return mean, torch.rsqrt(variance + eps)
