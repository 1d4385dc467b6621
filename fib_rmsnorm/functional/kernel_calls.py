"""Run a norm by the registry's kernel for it, or by torch where none serves."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fib_rmsnorm.deployment.choice import find_kernel
from fib_rmsnorm.deployment.kernels import KERNELS
from fib_rmsnorm.functional import formulas
from fib_rmsnorm.functional.forms import name_operator

KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_PLANS = 4096
"""Shapes of which a process remembers the kernel. One that meets more forgets all and asks again."""


class NormCall(NamedTuple):
    """What decides which kernel serves."""

    form: str
    rows: int
    hidden: int
    dtype: torch.dtype
    device: torch.device
    weight_dtype: torch.dtype | None
    has_bias: bool
    has_residual: bool


class NormPlan(NamedTuple):
    """The kernel for a call; None if torch serves."""

    entry: Callable[..., Any] | None
    solution: str | None
    why_not: str


_plans: dict[NormCall, NormPlan] = {}
_lock = Lock()


def run_norm(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm over the last dimension of x: any leading dimensions, strides and alignment."""
    plan = find_plan(form, x, weight, bias, None)
    if plan.entry is None or x.numel() == 0:
        return formulas.normalize(form, x, weight, bias, eps)
    rows = _rows_of(x)
    out = torch.empty_like(rows)
    plan.entry(rows, *_parameters(weight, bias), eps, out)
    return out.view(x.shape)


def run_add_norm(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum."""
    plan = find_plan(form, x, weight, bias, residual)
    if x.numel() == 0:
        return formulas.add_and_normalize(form, x, residual, weight, bias, eps)
    if plan.entry is None:
        if formulas.rounds_sum(form, x.dtype):  # then the sum is all that the norm needs
            total = x + residual
            return run_norm(form, total, weight, bias, eps), total
        return formulas.add_and_normalize(form, x, residual, weight, bias, eps)
    rows = _rows_of(x)
    out, new_residual = torch.empty_like(rows), torch.empty_like(rows)
    plan.entry(rows, _rows_of(residual), *_parameters(weight, bias), eps, out, new_residual)
    return out.view(x.shape), new_residual.view(x.shape)


def find_plan(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None) -> NormPlan:
    """The kernel for a call, from memory if its shape was met before."""
    hidden = x.shape[-1]
    call = NormCall(
        form,
        x.numel() // max(hidden, 1),
        hidden,
        x.dtype,
        x.device,
        None if weight is None else weight.dtype,
        bias is not None,
        residual is not None,
    )
    plan = _plans.get(call)
    if plan is None:
        plan = _make_plan(call)
        with _lock:
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            _plans[call] = plan
    return plan


def forget_plans() -> None:
    """Forget which kernel serves what, and build again what could not be built."""
    with _lock:
        _plans.clear()
        KERNELS.forget()


def _make_plan(call: NormCall) -> NormPlan:
    operator = name_operator(
        call.form, weight=call.weight_dtype is not None, bias=call.has_bias, residual=call.has_residual
    )
    if operator is None:
        return NormPlan(None, None, "no operator of the registry computes this")
    if call.dtype not in KERNEL_DTYPES:
        return NormPlan(None, None, f"no kernel takes {call.dtype}")
    if call.weight_dtype not in (None, call.dtype) and not _takes_float_weight(operator, call):
        return NormPlan(None, None, f"no kernel takes {call.dtype} with a weight of {call.weight_dtype}")
    kernel = find_kernel(operator, call.device, call.dtype, call.rows, call.hidden)
    if kernel is None:
        return NormPlan(None, None, f"no kernel of {operator} for {call.device}")
    return NormPlan(kernel.entry, kernel.solution, "")


def _takes_float_weight(operator: str, call: NormCall) -> bool:
    return call.weight_dtype == torch.float32 and operator in ("rmsnorm", "rmsnorm_bias") and call.device.type == "cpu"


def _rows_of(x: Tensor) -> Tensor:
    return x.contiguous().view(-1, x.shape[-1])


def _parameters(weight: Tensor | None, bias: Tensor | None) -> list[Tensor]:
    return [each.contiguous() for each in (weight, bias) if each is not None]
