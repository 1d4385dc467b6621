"""Calls that nothing but autograd watches: past torch's dispatcher, which for an operator in Python takes 20 us.

A compiler, an exporter, a mode or a subclass of Tensor must see the operator, and gets it (`custom_ops`). Transforms of
torch.func and forward-mode gradients need more derivatives than the operator has: they get the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.functional.forms import CONVENTIONS
from fib_rmsnorm.functional.gradient_calls import differentiate_eagerly
from fib_rmsnorm.functional.kernel_calls import run_add_norm, run_norm
from fib_rmsnorm.functional.observers import PLAIN, is_unobserved
from fib_rmsnorm.functional.quick_calls import QUICK, remember


def norm_eagerly(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm, with its gradient if one is needed."""
    remember(form, x, None, weight, bias)
    if _needs_gradient(x, weight, bias):
        out: Tensor = _EagerNorm.apply(x, weight, bias, eps, form, None)  # type: ignore[no-untyped-call]
        return out
    return run_norm(form, x, weight, bias, eps)


def run_quickly(
    convention: str, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor | None:
    """The norm by a kernel of a shape that was met before; None if there is none, or if it refuses."""
    if residual is not None or (bias is not None) != (convention == "layernorm"):
        return None
    if type(x) is not Tensor or weight is None or type(weight) not in PLAIN or type(bias) not in PLAIN:
        return None
    entry = QUICK.get((convention, x.shape, x.dtype, x.get_device()))
    if entry is None or not x.is_contiguous() or not is_unobserved() or x.is_neg() or weight.is_neg():
        return None
    try:
        if _needs_gradient(x, weight, bias):
            form = CONVENTIONS.get(convention, convention)
            out: Tensor = _EagerNorm.apply(x, weight, bias, eps, form, entry)  # type: ignore[no-untyped-call]
        else:
            out = torch.empty_like(x)
            entry(*((x, weight) if bias is None else (x, weight, bias)), eps, out)
    except (ValueError, TypeError, RuntimeError):
        return None  # the long way says what is wrong
    return out


def add_norm_eagerly(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual and the sum, with their gradients if one is needed."""
    remember(form, x, residual, weight, bias)
    if _needs_gradient(x, residual, weight, bias):
        pair: tuple[Tensor, Tensor] = _EagerAddNorm.apply(x, residual, weight, bias, eps, form)  # type: ignore[no-untyped-call]
        return pair
    return run_add_norm(form, x, residual, weight, bias, eps)


def _needs_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


class _EagerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        form: str,
        entry: Callable[..., Any] | None,
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.form, ctx.bias_dtype = eps, form, None if bias is None else bias.dtype
        if entry is None:
            return run_norm(form, x, weight, bias, eps)
        out = torch.empty_like(x)
        entry(*((x, weight) if bias is None else (x, weight, bias)), eps, out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        dx, dweight, dbias = differentiate_eagerly(ctx.form, ctx.eps, ctx.bias_dtype, gradients[0], None, x, weight)
        return dx, dweight, dbias, None, None, None


class _EagerAddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
    ) -> tuple[Tensor, Tensor]:
        out, new_residual = run_add_norm(form, x, residual, weight, bias, eps)
        ctx.save_for_backward(new_residual, weight)
        ctx.eps, ctx.form, ctx.bias_dtype = eps, form, None if bias is None else bias.dtype
        return out, new_residual

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        total, weight = ctx.saved_tensors
        dy, dnew_residual = gradients
        dx, dweight, dbias = differentiate_eagerly(ctx.form, ctx.eps, ctx.bias_dtype, dy, dnew_residual, total, weight)
        return dx, dx, dweight, dbias, None, None
