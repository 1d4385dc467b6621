"""The norms as operators of torch (`torch.ops.fib_rmsnorm`): for compilers, exporters, transforms and autograd.

Where the C++ that calls kernels is compiled, they and their autograd are in C++ too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.functional.formulas import compute_dtype
from fib_rmsnorm.functional.gradient_calls import TWICE
from fib_rmsnorm.functional.quick_calls import run_and_remember, run_and_remember_add, run_and_remember_backward

# torch.library has no types: it is Any here.
_torch_library: Any = torch.library
_library = _torch_library.Library("fib_rmsnorm", "DEF")
_library.define("norm(Tensor x, Tensor? weight, Tensor? bias, float eps, str form) -> Tensor")
_library.define(
    "add_norm(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps, str form) -> (Tensor, Tensor)"
)
_library.define(
    "norm_backward(Tensor dy, Tensor? dnew_residual, Tensor x, Tensor? weight, bool has_bias, float eps, str form)"
    " -> (Tensor, Tensor, Tensor)"
)

norm = torch.ops.fib_rmsnorm.norm
add_norm = torch.ops.fib_rmsnorm.add_norm
norm_backward = torch.ops.fib_rmsnorm.norm_backward


def _fake_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_add_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
) -> tuple[Tensor, Tensor]:
    dense = torch.contiguous_format
    return torch.empty_like(x, memory_format=dense), torch.empty_like(residual, memory_format=dense)


def _fake_norm_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> tuple[Tensor, Tensor, Tensor]:
    nothing = x.new_empty(0)
    dtype = compute_dtype(x.dtype) if weight is None else weight.dtype
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        nothing if weight is None else torch.empty_like(weight),
        x.new_empty(x.shape[-1], dtype=dtype) if has_bias else x.new_empty(0),
    )


def _keep_norm(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.eps, ctx.form = inputs
    ctx.save_for_backward(x, weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _differentiate_norm(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    dx, dweight, dbias = norm_backward(dy, None, x, weight, ctx.bias_dtype is not None, ctx.eps, ctx.form)
    return dx, _or_none(dweight, weight), _as_bias(dbias, ctx.bias_dtype), None, None


def _keep_add_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, residual, weight, bias, ctx.eps, ctx.form = inputs
    ctx.save_for_backward(output[1], weight)
    ctx.residual_dtype = residual.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype


def _differentiate_add_norm(ctx: Any, dy: Tensor, dnew_residual: Tensor) -> tuple[Any, ...]:
    total, weight = ctx.saved_tensors
    has_bias = ctx.bias_dtype is not None
    dx, dweight, dbias = norm_backward(dy, dnew_residual, total, weight, has_bias, ctx.eps, ctx.form)
    return dx, dx, _or_none(dweight, weight), _as_bias(dbias, ctx.bias_dtype), None, None


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError(TWICE)


def _or_none(gradient: Tensor, of: Tensor | None) -> Tensor | None:
    return None if of is None else gradient


def _as_bias(gradient: Tensor, dtype: torch.dtype | None) -> Tensor | None:
    return None if dtype is None else gradient.to(dtype)


for _name, _run, _fake, _differentiate, _keep in (
    ("norm", run_and_remember, _fake_norm, _differentiate_norm, _keep_norm),
    ("add_norm", run_and_remember_add, _fake_add_norm, _differentiate_add_norm, _keep_add_norm),
    ("norm_backward", run_and_remember_backward, _fake_norm_backward, _refuse, None),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    _torch_library.register_fake(f"fib_rmsnorm::{_name}", _fake, lib=_library)
    _torch_library.register_autograd(f"fib_rmsnorm::{_name}", _differentiate, setup_context=_keep, lib=_library)
